#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/made_files.h"
#include "smartmine/core/error.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// Protobuf's wire format, written by hand.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(std::uint64_t field, std::uint64_t value) { return varint(field << 3) + varint(value); }
std::string bytes_of(std::uint64_t field, const std::string& content) { return varint(field << 3 | 2) + varint(content.size()) + content; }
std::string floats_of(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().contiguous();
  return {reinterpret_cast<const char*>(values.data_ptr<float>()), static_cast<std::size_t>(values.numel()) * sizeof(float)};
}

/// As Caffe had it up to 2014: four lengths, num, channels, height and width, whatever the blob is.
std::string old_blob(const torch::Tensor& tensor) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  while (shape.size() < 4) shape.insert(shape.begin(), 1);
  std::string blob;
  for (std::uint64_t i = 0; i < 4; ++i) blob += number(i + 1, static_cast<std::uint64_t>(shape[i]));
  return blob + bytes_of(5, floats_of(tensor));
}
std::string old_layer(const std::string& name, std::uint64_t type, const std::vector<torch::Tensor>& blobs) {
  std::string layer = bytes_of(2, "data") + bytes_of(3, name) + bytes_of(4, name) + number(5, type);
  for (const torch::Tensor& blob : blobs) layer += bytes_of(6, old_blob(blob));
  // Rates of the blobs: floats one by one, which nobody asks for.
  return bytes_of(2, layer + varint(7 << 3 | 5) + std::string("\0\0\x80?", 4));
}
std::string new_blob(const torch::Tensor& tensor) {
  std::string lengths;
  for (const std::int64_t length : tensor.sizes()) lengths += varint(static_cast<std::uint64_t>(length));
  return bytes_of(7, bytes_of(1, lengths)) + bytes_of(5, floats_of(tensor));
}
std::string new_layer(const std::string& name, const std::string& type, const std::vector<torch::Tensor>& blobs) {
  std::string layer = bytes_of(1, name) + bytes_of(2, type) + bytes_of(3, "data");
  for (const torch::Tensor& blob : blobs) layer += bytes_of(7, new_blob(blob));
  return bytes_of(100, layer);
}

constexpr std::uint64_t kConvolution = 4, kInnerProduct = 14, kReLU = 18;

struct Sample {
  torch::Tensor filters = torch::arange(24, torch::kFloat32).view({2, 3, 2, 2}), bias = torch::tensor({0.5F, -1.0F});
  torch::Tensor matrix = torch::arange(12, torch::kFloat32).view({3, 4}), one = torch::tensor({7.0F}).view({1, 1, 1, 1});
};

class Caffemodel : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const {
    testing::save(folder_ / "net.caffemodel", bytes);
    return folder_ / "net.caffemodel";
  }
  testing::TemporaryFolder folder_;
  Sample sample_;
};

TEST_F(Caffemodel, IsReadInTheOldFormAndTheNew) {
  const std::string name = bytes_of(1, "Net");
  const std::string old = name + old_layer("conv1/7x7", kConvolution, {sample_.filters, sample_.bias}) + old_layer("relu", kReLU, {}) +
                          old_layer("fc", kInnerProduct, {sample_.matrix, torch::tensor({1.0F, 2.0F, 3.0F})}) +
                          old_layer("tiny", kConvolution, {sample_.one, torch::tensor({4.0F})});
  const std::string fresh = name + new_layer("conv1/7x7", "Convolution", {sample_.filters, sample_.bias}) + new_layer("relu", "ReLU", {}) +
                            new_layer("fc", "InnerProduct", {sample_.matrix, torch::tensor({1.0F, 2.0F, 3.0F})}) +
                            new_layer("tiny", "Convolution", {sample_.one, torch::tensor({4.0F})});
  for (const std::string& bytes : {old, fresh}) {
    const NamedTensors tensors = read_weights(write(bytes));
    ASSERT_EQ(tensors.size(), 6U);
    EXPECT_TRUE(tensors.at("conv1/7x7.weight").equal(sample_.filters));
    EXPECT_TRUE(tensors.at("conv1/7x7.bias").equal(sample_.bias));
    EXPECT_TRUE(tensors.at("fc.weight").equal(sample_.matrix));
    EXPECT_TRUE(tensors.at("fc.bias").equal(torch::tensor({1.0F, 2.0F, 3.0F})));
    EXPECT_TRUE(tensors.at("tiny.weight").equal(sample_.one)) << tensors.at("tiny.weight").sizes();
    EXPECT_TRUE(tensors.at("tiny.bias").equal(torch::tensor({4.0F})));
  }
}

TEST_F(Caffemodel, ValuesMayBeDoublesOrStandOneByOne) {
  const double doubles[] = {0.25, -3};
  std::string single;
  for (const float value : {1.5F, 2.5F}) single += varint(5 << 3 | 5) + std::string(reinterpret_cast<const char*>(&value), 4);
  const std::string shape = bytes_of(7, number(1, 2));
  const std::string layer = bytes_of(1, "x") + bytes_of(7, shape + bytes_of(8, std::string(reinterpret_cast<const char*>(doubles), 16))) +
                            bytes_of(7, shape + single);
  const NamedTensors tensors = read_caffemodel(write(bytes_of(100, layer)));
  EXPECT_TRUE(tensors.at("x.weight").equal(torch::tensor({0.25F, -3.0F})));
  EXPECT_TRUE(tensors.at("x.bias").equal(torch::tensor({1.5F, 2.5F})));
}

TEST_F(Caffemodel, OfGoogLeNetGoesIntoGoogLeNet) {
  const auto source = make_model({.backbone = "googlenet", .seed = 3}), target = make_model({.backbone = "googlenet", .seed = 4});
  std::string bytes = bytes_of(1, "GoogleNet");
  NamedTensors state = source->state();
  for (const auto& [name, tensor] : state)
    if (name.ends_with(".weight") && !name.starts_with("embedding")) {
      const std::string layer = name.substr(0, name.size() - 7);
      bytes += old_layer(layer, kConvolution, {tensor.detach(), state.at(layer + ".bias").detach()});
    }
  // The heads that help training, and the classifier.
  for (const char* head : {"loss1/conv", "loss2/fc", "loss3/classifier"})
    bytes += old_layer(head, kInnerProduct, {sample_.matrix, sample_.bias});
  const auto file = write(bytes);
  EXPECT_FALSE(load_into(*target, read_weights(file), {.new_layer_may_be_missing = true}));
  for (const auto& [name, tensor] : target->state()) EXPECT_TRUE(name.starts_with("embedding") || tensor.equal(state.at(name))) << name;
  EXPECT_THAT(
      [&] { load_into(*make_model({.backbone = "resnet18"}), read_weights(file), {.new_layer_may_be_missing = true, .source = "f"}); },
      ThrowsMessage<IoError>("f: these are weights of googlenet, not weights of resnet18; check the backbone"));
}

TEST_F(Caffemodel, ThatIsDamagedIsRefusedWithThePlace) {
  const std::string whole = bytes_of(1, "Net") + old_layer("conv", kConvolution, {sample_.filters, sample_.bias});
  const auto refused = [&](const std::string& bytes, const char* words) {
    EXPECT_THAT([&] { read_weights(write(bytes)); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("net.caffemodel: byte "), HasSubstr(words), Not(HasSubstr("\n")))));
  };
  for (std::size_t length = 1; length < whole.size(); ++length) refused(whole.substr(0, length), "damaged");
  const auto of_blob = [](const std::string& blob) { return bytes_of(1, "Net") + bytes_of(100, bytes_of(1, "x") + bytes_of(7, blob)); };
  refused(of_blob(bytes_of(7, number(1, 3)) + bytes_of(5, std::string(8, '\0'))), "a blob [3] has 2 values");
  refused(of_blob(bytes_of(7, number(1, ~std::uint64_t{0})) + bytes_of(5, std::string(8, '\0'))), "a blob [-1] has 2 values");
  refused(of_blob(bytes_of(5, std::string(7, '\0'))), "values of 7 bytes");
  refused(bytes_of(1, "Net"), "no layer has weights");
  refused(whole + old_layer("conv", kConvolution, {sample_.filters}), "two layers are called 'conv'");
  refused(bytes_of(1, "Net") + number(100, 7), "is no message");
  refused(std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), "over 64 bits");
}

/// The published weights, as a .caffemodel that Python's protobuf library wrote by Caffe's own names and numbers of fields.
TEST_F(Caffemodel, WrittenByProtobufItselfIsRead) {
  const char* const chosen = std::getenv("SMARTMINE_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  if (std::system((python + " -c 'import google.protobuf' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "python3 (or SMARTMINE_PYTHON) has no protobuf";
  testing::save(folder_ / "make.py", R"(
import sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
F = descriptor_pb2.FieldDescriptorProto
file = descriptor_pb2.FileDescriptorProto(name='caffe.proto', package='caffe', syntax='proto2')
def message(name, *fields):
    m = file.message_type.add(name=name)
    for field, number, kind, label, packed in fields:
        f = m.field.add(name=field, number=number, label=label, type=F.TYPE_MESSAGE if isinstance(kind, str) else kind)
        if isinstance(kind, str): f.type_name = '.caffe.' + kind
        if packed: f.options.packed = True
one, many = F.LABEL_OPTIONAL, F.LABEL_REPEATED
message('BlobShape', ('dim', 1, F.TYPE_INT64, many, True))
message('BlobProto', ('num', 1, F.TYPE_INT32, one, 0), ('channels', 2, F.TYPE_INT32, one, 0), ('height', 3, F.TYPE_INT32, one, 0),
        ('width', 4, F.TYPE_INT32, one, 0), ('data', 5, F.TYPE_FLOAT, many, True), ('diff', 6, F.TYPE_FLOAT, many, True),
        ('shape', 7, 'BlobShape', one, 0))
message('V1LayerParameter', ('bottom', 2, F.TYPE_STRING, many, 0), ('top', 3, F.TYPE_STRING, many, 0), ('name', 4, F.TYPE_STRING, one, 0),
        ('type', 5, F.TYPE_INT32, one, 0), ('blobs', 6, 'BlobProto', many, 0), ('blobs_lr', 7, F.TYPE_FLOAT, many, 0))
message('LayerParameter', ('name', 1, F.TYPE_STRING, one, 0), ('type', 2, F.TYPE_STRING, one, 0), ('blobs', 7, 'BlobProto', many, 0))
message('NetParameter', ('name', 1, F.TYPE_STRING, one, 0), ('layers', 2, 'V1LayerParameter', many, 0),
        ('input', 3, F.TYPE_STRING, many, 0), ('layer', 100, 'LayerParameter', many, 0))
pool = descriptor_pool.DescriptorPool(); pool.Add(file)
Net = message_factory.GetMessageClass(pool.FindMessageTypeByName('caffe.NetParameter'))
net = Net(name='Two', input=['data'])
old = net.layers.add(name='old', type=4, bottom=['data'], top=['old'], blobs_lr=[1, 2])
old.blobs.add(num=2, channels=1, height=1, width=3, data=[0, 1, 2, 3, 4, 5], diff=[9, 9])
old.blobs.add(num=1, channels=1, height=1, width=2, data=[-1, -2])
new = net.layer.add(name='new', type='InnerProduct')
blob = new.blobs.add(data=[7, 8]); blob.shape.dim.extend([2, 1])
open(sys.argv[1], 'wb').write(net.SerializeToString())
)");
  const auto file = folder_ / "net.caffemodel";
  ASSERT_EQ(std::system((python + " '" + (folder_ / "make.py").string() + "' '" + file.string() + "'").c_str()), 0);
  const NamedTensors tensors = read_weights(file);
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_TRUE(tensors.at("old.weight").equal(torch::arange(6, torch::kFloat32).view({2, 1, 1, 3})));
  EXPECT_TRUE(tensors.at("old.bias").equal(torch::tensor({-1.0F, -2.0F})));
  EXPECT_TRUE(tensors.at("new.weight").equal(torch::tensor({7.0F, 8.0F}).view({2, 1})));
}

}  // namespace
}  // namespace smartmine
