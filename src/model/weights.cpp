#include "smartmine/model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

}  // namespace

NamedTensors read_weights(const std::filesystem::path& path) {
  bool is_zip = false;
  {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    is_zip = bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
  }
  return is_zip ? read_pytorch(path) : read_safetensors(path);
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
      if (!(options.new_layer_may_be_missing && name.starts_with("embedding."))) missing.push_back(in_quotes(name));
    } else if (found->second.sizes() != target.sizes()) {
      misshapen.push_back(
          fmt::format("{} [{}] instead of [{}]", in_quotes(name), fmt::join(found->second.sizes(), ", "), fmt::join(target.sizes(), ", ")));
    }
  }
  const std::vector<std::string> left_out = model.backbone().left_out();
  for (const auto& [name, tensor] : given)
    if (!state.contains(name) && !starts_with_any(name, left_out)) surplus.push_back(in_quotes(name));

  if (!missing.empty() || !surplus.empty() || !misshapen.empty()) {
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
