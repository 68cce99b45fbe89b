#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "environment.h"
#include "ranks.h"
#include "smartmine/run/run_data.h"
#include "smartmine/train/devices.h"
#include "smartmine/train/embed_images.h"
#include "torch_part.h"
#include "train_settings.h"

namespace smartmine::app {
namespace {

EmbeddedRun embed_run(const std::string& directory, const std::string& device, unsigned threads, const Progress& progress) {
  const RunDirectory run = RunDirectory::open(directory);
  RunConfig config = run.with_own_backbone(read_config(run.config_path()));
  config.compute.device = device;
  config.compute.threads = threads;
  const auto model = model_of(run);  // says that there is none before the images are looked for
  const DataSplits splits = load_run_data(config);
  EmbeddedImages embedded = embed_images(config, model, evaluated_half(config, splits), progress);
  const auto labels = embedded.dataset.labels();
  return {{std::move(embedded.embeddings), {labels.begin(), labels.end()}}, config.compute.seed};
}

}  // namespace

const TorchPart* torch_part() {
  static constexpr TorchPart kPart{
      .add_train = add_train, .add_embed = add_embed, .embed_run = embed_run, .share_work = share_work, .devices = devices};
  return &kPart;
}

// Started by itself, this program has read what prepare_environment sets already, so it starts once more.
void hand_over(int /*argc*/, char** argv) {
  if (!prepare_environment()) return;
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown) execv(self.c_str(), argv);  // where that cannot be, it works as well, only slower beside others
}

}  // namespace smartmine::app
