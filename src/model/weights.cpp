#include "smartmine/model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/pytorch_file.h"
#include "model/tensor_types.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"

namespace smartmine {
namespace {

bool starts_with_any(const std::string& name, const std::vector<std::string>& starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const std::string& start) { return name.starts_with(start); });
}

/// "2 missing ('a', 'b')"; long lists are cut, their length is said.
std::string list(const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  const std::vector<std::string> shown(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  return fmt::format("{} {} ({}{})", names.size(), what, fmt::join(shown, ", "), names.size() > kMost ? ", ..." : "");
}

enum class Format { kSafetensors, kPyTorch, kCaffe };

Format format_of(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const auto at = [&](std::size_t place) { return place < bytes.size() ? std::to_integer<unsigned>(bytes[place]) : 0U; };
  if ((at(0) == 'P' && at(1) == 'K') || is_old_pytorch(bytes)) return Format::kPyTorch;
  // Eight bytes are the length of a safetensors header, which is JSON. A network of Caffe's has no mark of its own; its first field is its
  // name or a layer, of the old kind or the new.
  constexpr std::size_t kHeader = 8;
  if (at(kHeader) == '{') return Format::kSafetensors;
  return at(0) == 0x0a || at(0) == 0x12 || (at(0) == 0xa2 && at(1) == 0x06) ? Format::kCaffe : Format::kSafetensors;
}

constexpr std::string_view kBatchCount = ".num_batches_tracked";

}  // namespace

NamedTensors without_wrapper(NamedTensors tensors) {
  for (const std::string_view wrapper : {"module.", "_orig_mod.", "module."}) {  // either may be in the other
    const auto wrapped = [&](const auto& named) { return named.first.starts_with(wrapper) && named.first.size() > wrapper.size(); };
    if (tensors.empty() || !std::all_of(tensors.begin(), tensors.end(), wrapped)) continue;
    NamedTensors bare;
    for (auto& [name, tensor] : tensors) bare.emplace(name.substr(wrapper.size()), std::move(tensor));
    tensors = std::move(bare);
  }
  return tensors;
}

std::string network_of(const NamedTensors& tensors) {
  const auto has = [&](const char* name) { return tensors.contains(name); };
  if (has("conv1/7x7_s2.weight") && has("inception_5b/pool_proj.weight")) return "googlenet";
  if (has("inception5b.branch4.1.conv.weight")) return "torchvision's GoogLeNet, which is another than Caffe's";
  if (has("layer4.2.conv3.weight") && !has("layer3.6.conv3.weight") && has("conv1.weight")) return "resnet50";
  if (has("layer4.1.conv2.weight") && !has("layer4.2.conv2.weight") && !has("layer4.1.conv3.weight") && has("conv1.weight"))
    return "resnet18";
  if (has("layer4.2.conv2.weight")) return "another ResNet";
  if (has("norm4.running_var") && has("conv4.weight")) return "small";
  return "";
}

NamedTensors read_weights(const std::filesystem::path& path) {
  switch (format_of(path)) {
    case Format::kPyTorch:
      return read_pytorch(path);
    case Format::kCaffe:
      return read_caffemodel(path);
    default:
      return read_safetensors(path);
  }
}

bool load_into(EmbeddingModel& model, const NamedTensors& tensors, const LoadOptions& options) {
  NamedTensors given;
  for (const auto& [name, tensor] : tensors) {
    std::string renamed = name;
    for (const auto& [from, to] : options.rename)
      if (name.starts_with(from)) renamed = to + name.substr(from.size());
    if (!given.emplace(renamed, tensor).second)
      throw InvalidArgument(fmt::format("rename makes two tensors {}; names must stay different", in_quotes(renamed)));
  }
  const NamedTensors state = model.state();
  std::vector<std::string> missing, surplus, misshapen;
  for (const auto& [name, target] : state) {
    const auto found = given.find(name);
    if (found == given.end()) {
      const bool may_be_missing = name.starts_with("embedding.") || name.ends_with(kBatchCount);
      if (!(options.new_layer_may_be_missing && may_be_missing)) missing.push_back(in_quotes(name));
    } else if (found->second.sizes() != target.sizes()) {
      misshapen.push_back(
          fmt::format("{} [{}] instead of [{}]", in_quotes(name), fmt::join(found->second.sizes(), ", "), fmt::join(target.sizes(), ", ")));
    }
  }
  const std::vector<std::string> left_out = model.backbone().left_out();
  for (const auto& [name, tensor] : given)
    if (!state.contains(name) && !starts_with_any(name, left_out) && !name.ends_with(kBatchCount)) surplus.push_back(in_quotes(name));

  if (!missing.empty() || !surplus.empty() || !misshapen.empty()) {
    const std::string network = network_of(given), &wanted = model.backbone().name();
    if (!network.empty() && network != wanted)
      throw IoError(fmt::format("{}: these are weights of {}, not weights of {}; check the backbone", options.source, network, wanted));
    std::vector<std::string> parts;
    if (!missing.empty()) parts.push_back(list("missing", missing));
    if (!surplus.empty()) parts.push_back(list("surplus", surplus));
    if (!misshapen.empty()) parts.push_back(list("misshapen", misshapen));
    throw IoError(fmt::format("{}: these are not weights of {} with {} dimensions: {}; check the backbone and the embedding's dimension",
                              options.source, model.backbone().name(), model.dimension(), fmt::join(parts, "; ")));
  }
  torch::NoGradGuard no_grad;
  for (const auto& [name, target] : state) {
    const auto found = given.find(name);
    if (found != given.end()) torch::Tensor(target).copy_(found->second);
  }
  return given.contains("embedding.weight");
}

}  // namespace smartmine
