#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "input_file.h"
#include "memory_file.h"
#include "report/run_files.h"
#include "smartmine/core/error.h"

namespace {

using namespace smartmine;

/// A run with two rows of embeddings; what is fuzzed of it changes.
class MadeRun {
 public:
  MadeRun() {
    folder_.link("report/evaluation.json", evaluation);
    folder_.link("triplets/report/triplets-0001.json", triplets);  // apart, or each input would be read with the other's last
    add("report/evaluation.jpegs", std::string("\xff\xd8\xff", 3) + std::string(60, 'x'));
    add("embeddings/labels.npy", npy("<i8", "(2,)", 16));
    add("embeddings/epoch-0001.npy", npy("<f4", "(2, 2)", 16));
  }
  std::filesystem::path path() const { return folder_.path(); }

  const InputFile evaluation, triplets;

 private:
  static std::string npy(const char* type, const char* shape, std::size_t bytes) {
    std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n' + std::string(bytes, '\0');
  }
  // There for those who look for it, read from memory.
  void add(const char* name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
    put_in_memory(folder_.path() / name, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  }

  InputFolder folder_;
};

}  // namespace

// What lies under report/ in a run, read for the page; the first byte says which file the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MadeRun run;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  Problems problems;
  if (data[0] % 2 == 0) {
    run.triplets.write(rest);
    read_triplets(run.path() / "triplets", 9, problems);
  } else {
    run.evaluation.write(rest);
    if (const auto split = read_evaluated(run.path(), 9, problems))
      for (std::size_t row = 0; row < split->classes.size(); ++row) split->image(row);
  }
  for (const std::string& problem : problems) expect_one_line(problem);
  return 0;
}
