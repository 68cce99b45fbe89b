#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "input_file.h"
#include "report/run_files.h"
#include "smartmine/core/error.h"

// What lies under report/ in a run, read for the page; the first byte says which file the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace smartmine;
  static const InputFile evaluation("evaluation.json"), triplets("triplets-0001.json");
  static const bool linked = [] {  // each in a folder called report
    for (const InputFile* file : {&evaluation, &triplets}) {
      const auto folder = file->path().parent_path();
      std::filesystem::create_directory_symlink(folder, folder / "report");
    }
    return true;
  }();
  (void)linked;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  Problems problems;
  if (data[0] % 2 == 0) {
    triplets.write(rest);
    read_triplets(triplets.path().parent_path(), 9, problems);
  } else {
    evaluation.write(rest);
    const auto folder = evaluation.path().parent_path();
    std::filesystem::create_directory(folder / "embeddings");
    if (!std::filesystem::exists(folder / "embeddings" / "labels.npy")) {
      const auto npy = [&](const char* name, const char* type, const char* shape, std::size_t bytes) {
        std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
        header.resize(117, ' ');
        header += '\n';
        std::ofstream(folder / "embeddings" / name, std::ios::binary)
            << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << std::string(bytes, '\0');
      };
      npy("labels.npy", "<i8", "(2,)", 16);
      npy("epoch-0001.npy", "<f4", "(2, 2)", 16);
      std::ofstream(folder / "evaluation.jpegs", std::ios::binary) << std::string("\xff\xd8\xff", 3) << std::string(60, 'x');
    }
    if (const auto split = read_evaluated(folder, 9, problems))
      for (std::size_t row = 0; row < split->classes.size(); ++row) split->image(row);
  }
  for (const std::string& problem : problems) expect_one_line(problem);
  return 0;
}
