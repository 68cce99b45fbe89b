#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "smartmine/model/embedding_model.h"

namespace smartmine {

// Weights files. All readers throw IoError naming the path, the tensor, the place and a hint. They never reserve more memory than the
// file has bytes to fill, and run no code from it.

/// Reads a .safetensors file. F16, BF16 and F64 become float32; integers and booleans keep their type. A value of F64 too large for a float
/// becomes infinite, as everywhere in torch.
NamedTensors read_safetensors(const std::filesystem::path& path);

/// Writes a .safetensors file, whole or not at all: float16, bfloat16, float32, float64, signed integers, uint8 and bool, from any device
/// and memory format. `metadata` goes into the header. The same tensors give the same bytes. Throws InvalidArgument for other types.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Reads a state dict saved with torch.save (the zip format of PyTorch 1.6 and newer, or the one before), also one under a key "state_dict"
/// or "model" of a larger checkpoint. Types become as with read_safetensors.
NamedTensors read_pytorch(const std::filesystem::path& path);

/// Reads the weights of a network that Caffe has saved, a .caffemodel, old or new. A layer's blobs become "LAYER.weight" and "LAYER.bias".
NamedTensors read_caffemodel(const std::filesystem::path& path);

/// Any of these; what the file starts with decides, not its ending.
NamedTensors read_weights(const std::filesystem::path& path);

/// The same tensors without the "module." or "_orig_mod." that all their names begin with where Python saved a network inside DataParallel
/// or a compiled one.
NamedTensors without_wrapper(NamedTensors tensors);

/// The backbone that tensors belong to, by names that only it has; others are called in words, and what nobody knows is empty.
std::string network_of(const NamedTensors& tensors);

/// Options for putting tensors into a model.
struct LoadOptions {
  bool new_layer_may_be_missing = false;           ///< For weights trained elsewhere: the new layer then keeps its values.
  std::map<std::string, std::string> rename = {};  ///< Starts of names in the file and what stands for them in the model: {"module.", ""}.
  std::string source = "weights";                  ///< What messages call the tensors, e.g. the path.
};

/// Copies tensors into the model's parameters and buffers. Layers the backbone leaves out (a classifier) are passed over, and so are
/// counts of batches, which nothing here needs. Unless everything fits nothing is copied, and IoError says in one line of which network the
/// tensors are, or names all missing, surplus and misshapen ones. Returns whether a new layer was among them.
bool load_into(EmbeddingModel& model, const NamedTensors& tensors, const LoadOptions& options = {});

}  // namespace smartmine
