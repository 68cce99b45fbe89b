#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "option_checks.h"
#include "outputs.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/output_file.h"
#include "smartmine/data/folder.h"
#include "smartmine/train/embed_images.h"
#include "train_settings.h"

namespace smartmine::app {
namespace {

struct EmbedArguments {
  std::string run;
  std::string input;
  std::string output;
  std::string device = "auto";
  unsigned threads = 0;
  bool skip_bad_images = false;
  bool json = false;
  bool quiet = false;

  /// x.npy -> x.paths.txt
  std::string paths() const { return std::filesystem::path(output).replace_extension(".paths.txt").string(); }
};

void embed(const EmbedArguments& arguments) {
  check_outputs({}, {arguments.output, arguments.paths()});
  const RunDirectory run = RunDirectory::open(arguments.run);
  RunConfig config = run.with_own_backbone(read_config(run.config_path()));
  config.compute.device = arguments.device;
  config.compute.threads = arguments.threads;
  config.data.skip_bad_images = arguments.skip_bad_images;
  const auto model = model_of(run);
  const Dataset images = list_images(arguments.input);
  ProgressDisplay display(arguments.quiet || arguments.json);
  const EmbeddedImages embedded = embed_images(config, model, images, display.callback());
  display.finish();
  stop_if_interrupted();

  const Rows& rows = embedded.embeddings.rows();
  OutputFile vectors(arguments.output), paths(arguments.paths());
  write_npy(vectors, std::span(rows.data(), rows.size() * rows.dimension()), {rows.size(), rows.dimension()});
  std::string lines;
  for (std::size_t i = 0; i < embedded.dataset.size(); ++i) lines += embedded.dataset.id(i) + "\n";
  paths.write(lines.data(), lines.size());
  commit_all({vectors, paths});

  if (!embedded.bad_images.empty())
    warn(fmt::format("note: {} bad images were skipped, the first: {}", embedded.bad_images.size(), embedded.bad_images.front().reason));
  if (arguments.json) {
    print(nlohmann::ordered_json{{"images", rows.size()},
                                 {"dimension", rows.dimension()},
                                 {"bad_images", embedded.bad_images.size()},
                                 {"weights", run.weights_in_words()}}
              .dump() +
          "\n");
  } else if (!arguments.quiet) {
    print(fmt::format("{} images embedded in {} dimensions: {}, their paths: {}\nweights: {}\n", rows.size(), rows.dimension(),
                      arguments.output, arguments.paths(), run.weights_in_words()));
  }
}

}  // namespace

void add_embed(CLI::App& program, Work& work) {
  auto arguments = std::make_shared<EmbedArguments>();
  CLI::App& command = *program.add_subcommand("embed", "Embeds a folder of images with the network of a run");
  command.add_option("--run", arguments->run, "Directory of the run")->required()->type_name("RUN_DIR");
  command.add_option("--input", arguments->input, "Folder of images, at any depth")->required()->type_name("DIR");
  command
      .add_option("--output", arguments->output,
                  "Writes the embeddings, .npy of float32, one row per image, and their paths beside it, .paths.txt")
      ->required()
      ->type_name("FILE");
  command.add_option("--device", arguments->device, "auto, cpu or cuda")
      ->check(one_of({"auto", "cpu", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--threads", arguments->threads, "Threads to use; 0: all cores")
      ->check(whole_number(0, 1024))
      ->type_name("T")
      ->capture_default_str();
  command.add_flag("--skip-bad-images", arguments->skip_bad_images, "Go on without images that cannot be read, and count them");
  command.add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine embed --run runs/glyphs-1 --input photos/ --output photos.npy\n"
      "      photos.npy has a row for each image, photos.paths.txt its path in the same order\n"
      "  smartmine knn --embeddings photos.npy --neighbors 10 --output lists\n"
      "      the nearest other photos of each");
  command.callback([arguments, &work] { work = [arguments] { embed(*arguments); }; });
}

}  // namespace smartmine::app
