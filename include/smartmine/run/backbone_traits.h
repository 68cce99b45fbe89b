#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// What there is to know of a backbone without making it.
struct BackboneTraits {
  std::string_view name;
  std::int64_t input_size;  ///< Side of the images it sees, unless somebody sets another ...
  std::int64_t least_size;  ///< ... from here ...
  std::int64_t most_size;   ///< ... to here.
  bool any_size;            ///< Evaluation may see another size than training: nothing in the network depends on it.
  bool pools;               ///< Its last layer is pooled, and there is a choice how.
  bool takes_mean;          ///< Mean and deviation of its input can be set.
  bool grey;                ///< Takes images of one channel too.
  bool pretrained;          ///< It comes with its weights.
};

inline constexpr std::array<BackboneTraits, 4> kBackbones = {{
    {"googlenet", 227, 160, 448, true, true, false, false, false},
    {"resnet18", 224, 64, 448, true, true, true, false, false},
    {"resnet50", 224, 64, 448, true, true, true, false, false},
    {"small", 32, 16, 256, false, false, false, true, false},
}};
/// A TorchScript file. What sizes it takes it says itself, when it is tried.
inline constexpr BackboneTraits kScripted = {"a TorchScript file", 224, 8, 1024, true, false, true, true, true};

inline std::vector<std::string> backbone_names() {
  std::vector<std::string> names;
  for (const BackboneTraits& backbone : kBackbones) names.emplace_back(backbone.name);
  return names;
}

/// Whether a backbone is given as a file and not by its name.
inline bool is_backbone_file(std::string_view backbone) {
  return backbone.ends_with(".pt") || backbone.ends_with(".pth") || backbone.find('/') != std::string_view::npos;
}

/// By name, or that of files; null: there is none.
inline const BackboneTraits* known_backbone(std::string_view backbone) {
  const auto* const found =
      std::find_if(kBackbones.begin(), kBackbones.end(), [&](const BackboneTraits& traits) { return traits.name == backbone; });
  if (found != kBackbones.end()) return found;
  return is_backbone_file(backbone) ? &kScripted : nullptr;
}

/// "0.485,0.456,0.406", or one number for all channels. Throws InvalidArgument naming `field`, the text and what it must be.
std::array<double, 3> parse_channels(const char* field, const std::string& text);
/// The same for what is taken off values of images, which are from 0 to 1, and what they are divided by then. Throw for values that must be
/// meant for 0 to 255, too.
std::array<double, 3> parse_mean(const char* field, const std::string& text);
std::array<double, 3> parse_deviation(const char* field, const std::string& text);

}  // namespace smartmine
