#include "train/network.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/backbone_traits.h"
#include "smartmine/train/embed_images.h"
#include "smartmine/train/trainer.h"
#include "train/network_threads.h"
#include "train/upload.h"

namespace smartmine {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::int64_t kEmbedBatch = 256;  // images a pass without gradients
constexpr std::int64_t kSlowBatch = 32;    // of a large network on a CPU: a pass should not keep anybody waiting for half a minute
constexpr std::int64_t kSlowInput = 64;    // pixels a side from which it is one
constexpr std::int64_t kMostBlocks = 4;    // such passes at the same time, for the memory they take

torch::Device choose_device(const std::string& name, const Ranks* ranks) {
  if (name == "cpu") return torch::kCPU;
  if (torch::cuda::is_available()) {  // ranks of a host take one each, as far as there are any
    const auto count = static_cast<int>(torch::cuda::device_count());
    return {torch::kCUDA, static_cast<c10::DeviceIndex>(ranks == nullptr ? 0 : ranks->local_rank() % count)};
  }
  if (name == "cuda")
    throw InvalidArgument("device is 'cuda', but no CUDA device can be used here; it must be cpu or auto on this machine");
  return torch::kCPU;
}

/// Loads config.model.weights, trained elsewhere. Returns whether they have a new layer. A file's own names have no "backbone." in front
/// yet.
bool load_foreign(EmbeddingModel& model, const NetworkOptions& config) {
  NamedTensors tensors = read_weights(config.weights);
  const NamedTensors state = model.state();
  if (std::none_of(state.begin(), state.end(), [](const auto& named) { return named.first.starts_with("backbone.module."); }))
    tensors = without_wrapper(std::move(tensors));
  LoadOptions options{.new_layer_may_be_missing = true, .source = config.weights};
  const bool plain = std::none_of(tensors.begin(), tensors.end(), [](const auto& named) { return named.first.starts_with("backbone."); });
  if (is_backbone_file(config.backbone) && plain) options.rename[""] = "backbone.";
  return load_into(model, tensors, options);
}

std::shared_ptr<EmbeddingModel> prepare_model(const RunConfig& config, const torch::Device& device, bool& new_layer_loaded) {
  const BackboneTraits* const traits = known_backbone(config.model.backbone);
  auto model = make_model({.backbone = config.model.backbone,
                           .embedding_dimension = config.model.embedding_dim,
                           .dropout = config.model.dropout.value_or(0),
                           .input_size = config.model.input_size.value_or(0),
                           .channels = traits != nullptr && traits->grey ? config.model.channels.value_or(0) : 0,
                           .input_mean = config.model.input_mean,
                           .input_deviation = config.model.input_deviation,
                           .pooling = config.model.pooling,
                           .frozen_norms = config.model.batch_norm == "frozen",
                           .device = device,
                           .seed = config.compute.seed});
  if (!config.model.weights.empty()) new_layer_loaded = load_foreign(*model, config.model);
  model->to(device);
  if (device.is_cuda()) model->use_channels_last();
  return model;
}

AugmentOptions augmentation(const RunConfig& config) {
  return {.crop = config.data.crop == "resized"  ? Crop::kRandomResized
                  : config.data.crop == "random" ? Crop::kRandom
                                                 : Crop::kCentre,
          .min_area = config.data.min_area,
          .max_aspect = config.data.max_aspect,
          .evaluation_size = config.model.evaluation_size.value_or(0),
          .flip = config.data.flip == "on",
          .colour_jitter = config.data.colour_jitter,
          .seed = config.compute.seed};
}

/// How many passes through the network a process makes at the same time: as many as have threads of their own. A GPU is busy with one.
std::int64_t passes_at_once(const ComputeOptions& compute, const torch::Device& device) {
  if (!device.is_cpu()) return 1;
  const auto all = static_cast<std::int64_t>(resolve_threads(static_cast<unsigned>(compute.threads)));
  return std::max<std::int64_t>(1, all / network_threads(compute));
}

/// The shards of a batch that a rank has.
std::int64_t shards_of_a_rank(const ComputeOptions& compute, const Ranks* ranks) {
  const std::int64_t shards = compute.shards.value_or(1), ranked = ranks == nullptr ? 1 : ranks->size();
  return (shards + ranked - 1) / ranked;
}

}  // namespace

std::int64_t network_threads(const ComputeOptions& compute) {
  if (compute.network_threads) return *compute.network_threads;
  const auto all = static_cast<std::int64_t>(resolve_threads(static_cast<unsigned>(compute.threads)));
  return compute.threads > 0 ? all : std::max<std::int64_t>(1, all / compute.shards.value_or(1));
}

DeviceImages::DeviceImages(ImageStore& store, const torch::Device& device) : store_(store), device_(device) {
  const std::size_t count = size();
  all_cached_ = store.stats().cached_images == count;
  if (device.is_cpu() || count * store.image_bytes() > store.options().cache_bytes) return;
  constexpr std::size_t kPiece = 1024;
  std::vector<torch::Tensor> pieces;
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    std::vector<std::size_t> items(std::min(kPiece, count - begin));
    std::iota(items.begin(), items.end(), begin);
    pieces.push_back(from_store(items));
  }
  all_ = torch::cat(pieces);
}

torch::Tensor DeviceImages::from_store(std::span<const std::size_t> items) {
  const ImageStoreOptions& options = store_.options();
  torch::Tensor images = torch::empty({static_cast<std::int64_t>(items.size()), static_cast<std::int64_t>(options.height),
                                       static_cast<std::int64_t>(options.width), static_cast<std::int64_t>(options.channels)},
                                      torch::TensorOptions(torch::kUInt8).pinned_memory(device_.is_cuda()));
  store_.get(items, images.data_ptr<std::uint8_t>());
  return images.to(device_, /*non_blocking=*/true);
}

torch::Tensor DeviceImages::get(std::span<const std::uint32_t> items) {
  if (!all_.defined()) {
    const std::vector<std::size_t> wide(items.begin(), items.end());
    return from_store(wide);
  }
  std::vector<std::int64_t> index(items.begin(), items.end());
  return all_.index_select(0, upload(torch::from_blob(index.data(), {static_cast<std::int64_t>(index.size())}, torch::kInt64), device_));
}

void DeviceImages::prefetch(std::span<const std::uint32_t> items) {
  if (all_.defined() || all_cached_) return;
  const std::vector<std::size_t> wide(items.begin(), items.end());
  store_.prefetch(wide);
}

Network::Network(const RunConfig& config, Ranks* with)
    : device(choose_device(config.compute.device, with)),
      type(config.compute.precision == "bfloat16" || (config.compute.precision == "auto" && device.is_cuda()) ? torch::kBFloat16
                                                                                                              : torch::kFloat32),
      model((at::set_num_threads(static_cast<int>(network_threads(config.compute))), prepare_model(config, device, new_layer_loaded))),
      augmenter(model->input(), augmentation(config)),
      ranks(with) {
  if (device.is_cuda()) {
    at::globalContext().setAllowTF32CuBLAS(true);
    at::globalContext().setAllowTF32CuDNN(true);
    // cuDNN's own choice of algorithms is as fast as the winners of a trial, which would take half a minute and differ from run to run.
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
  }
  at_once = passes_at_once(config.compute, device);
  RunConfig bare = config;
  bare.model.weights.clear();  // theirs are the model's
  bool none = false;
  for (std::int64_t i = 1; i < std::min(at_once, shards_of_a_rank(config.compute, with)); ++i)
    twins.push_back(prepare_model(bare, device, none));
  const std::int64_t size = model->input().size, side = config.model.image_size.value_or(model->input().resize);
  if (side < size) throw InvalidArgument(fmt::format("image-size is {}; it must be auto or at least the network's input, {}", side, size));
  if (config.model.evaluation_size.value_or(0) > side)
    throw InvalidArgument(
        fmt::format("evaluation-size is {}; it must be at most image-size, here {}", *config.model.evaluation_size, side));
}

std::optional<std::int64_t> check_network(const RunConfig& config) {
  if (!is_backbone_file(config.model.backbone) && config.model.weights.empty()) return std::nullopt;
  RunConfig alone = config.resolved();
  alone.compute.shards = 1;
  const Network tried(alone);
  return tried.model->backbone().feature_dimension();
}

ImageStoreOptions Network::store_options(const RunConfig& config) const {
  const InputFormat& input = model->input();
  const auto side = static_cast<std::size_t>(config.model.image_size.value_or(input.resize));
  return {.width = side,
          .height = side,
          .channels = static_cast<std::size_t>(input.channels),
          .cache_bytes = static_cast<std::size_t>(config.data.cache_mebibytes) * kMebibyte,
          .threads = static_cast<unsigned>(config.compute.threads),
          .skip_bad_images = config.data.skip_bad_images};
}

torch::Tensor Network::embed(DeviceImages& images, const Progress& progress, std::string_view stage) const {
  return pass(
      images, model->dimension(), [this](const torch::Tensor& x) { return model->forward(x); }, progress, stage);
}

std::string Network::start_new_layer(const RunConfig& config, DeviceImages& images, std::span<const std::int64_t> labels,
                                     const Progress& progress) {
  const bool chosen = config.model.new_layer_start != "auto";
  if (config.model.new_layer_start == "random" || (!chosen && !config.model.pretrained())) return "";
  if (new_layer_loaded) return chosen ? "the weights have a new layer already, so new-layer-start is not heeded" : "";
  const std::int64_t width = model->backbone().feature_dimension();
  if (chosen && config.model.embedding_dim > width)
    throw InvalidArgument(fmt::format("embedding-dim is {}; a new layer that starts from {} of {} features has at most {}",
                                      config.model.embedding_dim, config.model.new_layer_start, width, width));
  // As many directions as there are dimensions need more images than that, and rather more to mean something.
  if (!chosen && (config.model.embedding_dim > width || static_cast<std::size_t>(2 * config.model.embedding_dim) > images.size()))
    return "";
  const torch::Tensor features = pass(
      images, width, [this](const torch::Tensor& x) { return model->backbone().forward(x); }, progress, "features");
  try {
    model->set_new_layer(config.model.new_layer_start == "discriminants" ? discriminants(features, labels, config.model.embedding_dim)
                                                                         : principal_components(features, config.model.embedding_dim));
  } catch (const InvalidArgument& error) {
    if (chosen) throw InvalidArgument(fmt::format("{}; new-layer-start must be random here", error.what()));
    return fmt::format("the new layer starts at random: {}", error.what());
  }
  return chosen ? "" : "the new layer starts from components of the training images' features; see --new-layer-start";
}

// Without gradients, over all images in their order: [N, width] on the device.
torch::Tensor Network::pass(DeviceImages& images, std::int64_t width, const std::function<torch::Tensor(const torch::Tensor&)>& forward,
                            const Progress& progress, std::string_view stage) const {
  const torch::NoGradGuard no_grad;
  model->eval();
  const auto count = static_cast<std::int64_t>(images.size());
  torch::Tensor result = torch::empty({count, width}, torch::TensorOptions(torch::kFloat32).device(device));
  std::vector<std::uint32_t> items(static_cast<std::size_t>(count));
  std::iota(items.begin(), items.end(), 0U);
  const std::int64_t block_size = device.is_cpu() && model->input().size > kSlowInput ? kSlowBatch : kEmbedBatch;
  const auto batch = [&](std::int64_t begin) {
    const auto first = static_cast<std::size_t>(begin);
    return std::span(items).subspan(first, std::min(static_cast<std::size_t>(block_size), items.size() - first));
  };
  // Blocks are the same ones whoever does them, so that the result is.
  const int rank = ranks == nullptr ? 0 : ranks->rank(), size = ranks == nullptr ? 1 : ranks->size();
  const RankShare own = share_of_blocks(items.size(), block_size, rank, size);
  const auto first = static_cast<std::int64_t>(own.begin), end = static_cast<std::int64_t>(own.end);
  const std::int64_t round = std::min(at_once, kMostBlocks) * block_size;
  for (std::int64_t begin = first; begin < end; begin += round) {
    const std::int64_t next = std::min(end, begin + round);
    const auto blocks = static_cast<std::size_t>((next - begin + block_size - 1) / block_size);
    parallel_for(blocks, 1, static_cast<unsigned>(blocks), [&](std::size_t block, std::size_t, unsigned) {
      at::init_num_threads();  // this and the next hold for a thread
      const torch::NoGradGuard no_grad_here;
      const std::int64_t place = begin + static_cast<std::int64_t>(block) * block_size;
      const torch::Tensor pixels = images.get(batch(place));
      if (block == 0)
        images.prefetch(
            std::span(items).subspan(static_cast<std::size_t>(next), static_cast<std::size_t>(std::min(end, next + round) - next)));
      result.narrow(0, place, std::min(block_size, count - place)).copy_(forward(augmenter.evaluation(pixels, type)));
    });
    report(progress, stage, static_cast<std::size_t>(next - first), static_cast<std::size_t>(end - first), "images");
  }
  if (ranks == nullptr) return result;
  std::vector<RankShare> shares;
  for (int r = 0; r < size; ++r) shares.push_back(share_of_blocks(items.size(), block_size, r, size));
  const torch::Tensor all = result.cpu();  // itself, on a CPU
  ranks->gather_rows(all.data_ptr<float>(), static_cast<std::size_t>(width) * sizeof(float), shares);
  return all.to(device);
}

EmbeddedImages embed_images(const RunConfig& config, const std::filesystem::path& weights, const Dataset& dataset,
                            const Progress& progress) {
  RunConfig with_weights = config.resolved();
  with_weights.model.weights.clear();
  const Network network(with_weights);
  load_into(*network.model, read_weights(weights), {.source = weights.string()});
  ImageStore store(dataset, network.store_options(with_weights));
  store.check_all(progress);
  DeviceImages images(store, network.device);
  torch::Tensor embeddings = network.embed(images, progress, "embedding").cpu();
  const auto bad = store.bad_images();
  return {embeddings_of(std::move(embeddings)), store.dataset(), {bad.begin(), bad.end()}};
}

}  // namespace smartmine
