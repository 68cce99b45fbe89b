#include "smartmine/model/scripted_network.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/version.h>

#include <set>
#include <utility>

#include "model/tensor_types.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"

namespace smartmine {
namespace {

constexpr const char* kPrefix = "backbone.";
constexpr std::uint64_t kTrialStream = 0x747279;

/// The line of a message of TorchScript's that says what happened; the others say where in its own code.
std::string reason(const std::string& message) {
  std::string found, first;
  for (std::size_t begin = 0; begin < message.size();) {
    const std::size_t end = std::min(message.find('\n', begin), message.size());
    const std::string line = message.substr(begin, end - begin);
    if (first.empty() && !line.empty()) first = line;
    if (line.find("Error: ") != std::string::npos) found = line;
    begin = end + 1;
  }
  constexpr std::size_t kLongest = 300;
  return (found.empty() ? first : found).substr(0, kLongest);
}

/// Autocast to bfloat16 on a device, as long as this lives.
class Autocast {
 public:
  Autocast(const torch::Device& device, bool on) : cuda_(device.is_cuda()), before_(enabled()) {
    if (!on) return;
#if TORCH_VERSION_MAJOR >= 2
    at::autocast::set_autocast_dtype(device.type(), at::kBFloat16);
#else
    cuda_ ? at::autocast::set_autocast_gpu_dtype(at::kBFloat16) : at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
    enable(true);
  }
  ~Autocast() {
    if (before_ == enabled()) return;
    enable(before_);
    at::autocast::clear_cache();  // of parameters as they are now
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
#if TORCH_VERSION_MAJOR >= 2
  at::DeviceType type() const { return cuda_ ? at::kCUDA : at::kCPU; }
  bool enabled() const { return at::autocast::is_autocast_enabled(type()); }
  void enable(bool on) const { at::autocast::set_autocast_enabled(type(), on); }
#else
  bool enabled() const { return cuda_ ? at::autocast::is_enabled() : at::autocast::is_cpu_enabled(); }
  void enable(bool on) const { cuda_ ? at::autocast::set_enabled(on) : at::autocast::set_cpu_enabled(on); }
#endif
  bool cuda_, before_;
};

}  // namespace

struct ScriptedNetwork::Script {
  torch::jit::Module module;
};

void ScriptedNetworkOptions::validate() const {
  if (input_size < 8 || input_size > 1024) throw InvalidArgument(fmt::format("input_size is {}; it must be from 8 to 1024", input_size));
  if (channels != 1 && channels != 3) throw InvalidArgument(fmt::format("channels is {}; it must be 1 or 3", channels));
}

ScriptedNetwork::ScriptedNetwork(const ScriptedNetworkOptions& options)
    : Backbone("the network in " + options.path),
      options_(options),
      input_(input_of(options.input_size, options.channels, options.mean, options.deviation)),
      script_(std::make_unique<Script>()) {
  options_.validate();
  input_.resize = options.input_size * 9 / 8;
  load();
  try_out();
}

ScriptedNetwork::~ScriptedNetwork() = default;

void ScriptedNetwork::load() {
  const MappedFile readable(options_.path);  // says what is wrong with a path better than TorchScript does
  try {
    script_->module = torch::jit::load(options_.path, options_.device);
  } catch (const std::exception& error) {
    throw IoError(
        fmt::format("{}: not a TorchScript file ({}); save one with torch.jit.script(module).save(path). A state dict goes with --weights "
                    "and --backbone resnet50, say",
                    options_.path, in_quotes(reason(error.what()))));
  }
  std::set<const void*> known;  // a tensor may have two names
  std::size_t trained = 0;
  // Registered, they share their memory with the module's own: what is put into one is in the other.
  for (const auto& parameter : script_->module.named_parameters()) {
    if (!known.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
    if (parameter.value.scalar_type() != torch::kFloat32)
      throw IoError(fmt::format("{}: {} is of type {}; parameters must be float32: call module.float() before it is saved", options_.path,
                                in_quotes(parameter.name), torch::toString(parameter.value.scalar_type())));
    add_parameter(kPrefix + parameter.name, parameter.value, parameter.value.requires_grad());
    trained += parameter.value.requires_grad() ? 1 : 0;
  }
  if (known.empty())
    throw IoError(fmt::format(
        "{}: has no parameters, so there is nothing to train; torch.jit.freeze takes them away, save the module without", options_.path));
  if (trained == 0)
    throw IoError(fmt::format("{}: does not train: requires_grad is false of all its {} parameters; set it before the module is saved",
                              options_.path, known.size()));
  for (const auto& buffer : script_->module.named_buffers())
    if (known.insert(buffer.value.unsafeGetTensorImpl()).second) add_buffer(kPrefix + buffer.name, buffer.value);
}

void ScriptedNetwork::try_out() {
  const torch::AutoGradMode with_gradients(true);
  eval();  // running averages stay
  Random random(1, kTrialStream);
  torch::Tensor features;
  bool differ = false;
  for (const std::int64_t count : {3, 2}) {
    torch::Tensor images = torch::empty({count, input_.channels, input_.size, input_.size});
    fill_normal(images, 1, random);
    features = forward(images.to(options_.device));
    if (features.dim() != 2 || features.size(0) != count || features.size(1) < 1)
      throw IoError(fmt::format("{}: gives [{}] of {} images; it must give [{}, D], a vector an image", options_.path,
                                fmt::join(features.sizes(), ", "), count, count));
    if (!features.isfinite().all().item<bool>())
      throw IoError(
          fmt::format("{}: gives values that are not finite of images of noise; check its weights, --input-mean and "
                      "--input-deviation",
                      options_.path));
    differ = differ || (features != features[0]).any().item<bool>();
  }
  feature_dimension_ = features.size(1);
  torch::Tensor towards = torch::empty({features.size(0), features.size(1)});
  fill_normal(towards, 1, random);
  bool reached = features.requires_grad(), moved = false;
  if (reached) {
    try {
      (features * towards.to(options_.device)).sum().backward();
    } catch (const std::exception& error) {
      throw IoError(fmt::format("{}: does not train: {}", options_.path, reason(error.what())));
    }
    reached = false;
    for (torch::Tensor& parameter : parameters()) {
      reached = reached || parameter.grad().defined();
      moved = moved || (parameter.grad().defined() && (parameter.grad() != 0).any().item<bool>());
      parameter.mutable_grad() = torch::Tensor();
    }
  }
  if (!reached)
    throw IoError(
        fmt::format("{}: does not train: no gradient reaches its parameters; its code must not detach them or use no_grad", options_.path));
  if (!moved)
    throw IoError(
        fmt::format("{}: does not train: the gradients of all its parameters are 0; what it gives must depend on them", options_.path));
  if (!differ)
    throw IoError(
        fmt::format("{}: gives the same vector of all images, here of noise; what it gives must depend on the image", options_.path));
  train();
}

void ScriptedNetwork::train(bool on) {
  Module::train(on);
  script_->module.train(on);
  if (!on || !options_.frozen_norms) return;
  for (torch::jit::Module module : script_->module.modules())
    if (module.hasattr("running_mean") && module.hasattr("training")) module.setattr("training", false);
}

torch::Tensor ScriptedNetwork::forward(const torch::Tensor& images) {
  // Operation by operation: TorchScript's own optimiser would look at the first passes and compute later ones otherwise, so that a run that
  // is resumed were not the same.
  const torch::jit::GraphOptimizerEnabledGuard plain(false);
  const Autocast autocast(images.device(), images.scalar_type() == torch::kBFloat16);
  torch::jit::IValue result;
  try {
    result = script_->module.forward({images.scalar_type() == torch::kBFloat16 ? images.to(torch::kFloat32) : images});
  } catch (const std::exception& error) {
    throw IoError(fmt::format("{}: fails on images [{}]: {}; check --input-size and --channels", options_.path,
                              fmt::join(images.sizes(), ", "), reason(error.what())));
  }
  if (!result.isTensor() || !result.toTensor().is_floating_point())
    throw IoError(fmt::format("{}: gives {}; it must give one tensor of floats, [N, D]", options_.path,
                              result.isTensor() ? fmt::format("a tensor of type {}", torch::toString(result.toTensor().scalar_type()))
                                                : fmt::format("a value of type {}", result.tagKind())));
  const torch::Tensor features = result.toTensor();
  return features.scalar_type() == torch::kFloat64 ? features : features.to(torch::kFloat32);
}

}  // namespace smartmine
