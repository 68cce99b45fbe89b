#include "smartmine/model/weights.h"

#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/made_files.h"
#include "model/made_pickle.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using test::length_of;
using test::old_file;
using test::Pickle;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class Weights : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    testing::save(path(name), bytes);
    return path(name);
  }

  /// A safetensors file of any header, however wrong.
  std::filesystem::path safetensors(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    return write("made.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  }

  void expect_refused(const std::string& header, const std::string& data, const std::string& words) const {
    const auto file = safetensors(header, data);
    EXPECT_THAT([&] { read_safetensors(file); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("made.safetensors"), HasSubstr(words), Not(HasSubstr("\n")))))
        << header;
  }

  testing::TemporaryFolder folder_;
};

NamedTensors samples() {
  return {{"a/b.weight", torch::arange(6, torch::kFloat32).view({2, 3}).t()},
          {"half", torch::tensor({1.5F, -2.0F}).to(torch::kFloat16)},
          {"brain", torch::tensor({3.0F, -0.25F, 8.0F}).to(torch::kBFloat16)},
          {"double", torch::tensor({0.1, 1e30}, torch::kFloat64)},
          {"steps", torch::tensor({std::int64_t{1} << 40}, torch::kInt64)},
          {"empty", torch::empty({0, 4})},
          {"scalar", torch::tensor(2.5F)},
          {"mask", torch::tensor({true, false, true})}};
}

TEST_F(Weights, ReadsBackWhatItWrites) {
  write_safetensors(path("x.safetensors"), samples(), {{"format", "pt"}, {"note", "\"quotes\" and \n"}});
  const NamedTensors read = read_safetensors(path("x.safetensors"));
  const NamedTensors expected = samples();
  ASSERT_EQ(read.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(read.contains(name)) << name;
    EXPECT_EQ(read.at(name).sizes(), tensor.sizes()) << name;
    const torch::Tensor as_read = tensor.is_floating_point() ? tensor.to(torch::kFloat32) : tensor;
    EXPECT_EQ(read.at(name).scalar_type(), as_read.scalar_type()) << name;
    EXPECT_TRUE(read.at(name).equal(as_read)) << name;
  }
}

TEST_F(Weights, WritesTheSameBytesForTheSameTensors) {
  write_safetensors(path("x"), samples());
  write_safetensors(path("y"), samples());
  EXPECT_EQ(testing::contents(path("x")), testing::contents(path("y")));
  const std::string bytes = testing::contents(path("x"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);  // so that the data are aligned
}

TEST_F(Weights, WritesNoTensorsToo) {
  write_safetensors(path("none"), {});
  EXPECT_TRUE(read_safetensors(path("none")).empty());
}

TEST_F(Weights, ReadsAFileMadeByHand) {
  const float values[] = {1, -2};
  const auto file = safetensors(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                std::string(reinterpret_cast<const char*>(values), 8));
  EXPECT_TRUE(read_weights(file).at("w").equal(torch::tensor({1.0F, -2.0F})));
}

TEST_F(Weights, PythonReadsWhatIsWritten) {
  if (std::system("python3 -c 'import numpy, safetensors.numpy' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3 has no safetensors package with numpy";
  NamedTensors tensors = samples();
  tensors.erase("brain");  // numpy has no bfloat16
  write_safetensors(path("x.safetensors"), tensors, {{"format", "pt"}});
  write("check.py", R"(
import sys, numpy, safetensors.numpy
t = safetensors.numpy.load_file(sys.argv[1])
assert sorted(t) == ['a/b.weight', 'double', 'empty', 'half', 'mask', 'scalar', 'steps'], sorted(t)
assert t['a/b.weight'].tolist() == [[0, 3], [1, 4], [2, 5]] and t['a/b.weight'].dtype == numpy.float32
assert t['half'].tolist() == [1.5, -2.0] and t['half'].dtype == numpy.float16
assert t['double'].tolist() == [0.1, 1e30] and t['steps'].tolist() == [1 << 40]
assert t['empty'].shape == (0, 4) and t['scalar'].shape == () and t['scalar'] == 2.5 and t['mask'].tolist() == [True, False, True]
safetensors.numpy.save_file({'back': numpy.arange(4, dtype=numpy.float32)}, sys.argv[2])
)");
  const std::string command =
      "python3 '" + path("check.py").string() + "' '" + path("x.safetensors").string() + "' '" + path("back.safetensors").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(read_safetensors(path("back.safetensors")).at("back").equal(torch::arange(4, torch::kFloat32)));
}

TEST_F(Weights, RefusesDamagedHeadersNamingTensorAndPlace) {
  const std::string eight(8, '\0');
  expect_refused("[1]", "", "not an object");
  expect_refused("{\"w\":", "", "byte");
  expect_refused("{} x", "", "not JSON");
  expect_refused(R"({"w":1})", "", "tensor 'w'");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2]}})", eight, "no data_offsets");
  expect_refused(R"({"w":{"shape":[2],"data_offsets":[0,8]}})", eight, "no dtype");
  expect_refused(R"({"w":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", eight, "unsupported dtype 'F8_E4M3'");
  expect_refused(R"({"w":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", eight, "dtype is not a string");
  expect_refused(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", eight, "[3] of F32 does not take the 8 bytes");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", eight, "outside the file's 8 bytes");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight, "outside the file's 8 bytes");
  expect_refused(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight, "not a whole number");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", eight, "not a whole number");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1e999],"data_offsets":[0,8]}})", eight, "damaged");
  expect_refused(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})", eight, "does not take");
  expect_refused(R"({"w":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", eight, "too large");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", eight, "not a pair");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight,
                 "twice");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"v":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", eight,
                 "tensor 'v': its data at byte 2 overlap");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight, "bytes from 0 belong to nobody");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", eight, "4 bytes after the last tensor");
  expect_refused(R"({"w":{"dtype":"F32","shape":[[[[2]]]],"data_offsets":[0,8]}})", eight, "nests too deep");
  expect_refused("{\"\xff\":1}", "", "not JSON");
}

TEST_F(Weights, RefusesHostileLengths) {
  for (const std::uint64_t length : {std::uint64_t{100}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    const auto file = write("cut.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + "{}");
    EXPECT_THAT([&] { read_safetensors(file); }, ThrowsMessage<IoError>(AllOf(HasSubstr("cut.safetensors"), HasSubstr("but 2 follow"))));
  }
  EXPECT_THAT([&] { read_safetensors(write("short", "abc")); }, ThrowsMessage<IoError>(HasSubstr("3 bytes")));
  EXPECT_THAT([&] { read_weights(write("zero", "")); }, ThrowsMessage<IoError>(HasSubstr("zero")));
  EXPECT_THAT([&] { read_weights(path("nowhere")); }, ThrowsMessage<IoError>(HasSubstr("nowhere")));
}

TEST_F(Weights, EveryShortenedFileIsRefused) {
  write_safetensors(path("x"), {{"w", torch::ones({3})}, {"v", torch::zeros({2, 2})}});
  const std::string whole = testing::contents(path("x"));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(read_safetensors(write("y", whole.substr(0, size))), IoError) << size;
}

TEST_F(Weights, RefusesToWriteWhatTheFormatCannotHold) {
  EXPECT_THAT(
      [&] {
        write_safetensors(path("x"), {{"z", torch::zeros({2}, torch::kComplexFloat)}});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("'z'")));
  EXPECT_THAT([&] { write_safetensors(path("x"), {{"z", torch::Tensor()}}); }, ThrowsMessage<InvalidArgument>(HasSubstr("undefined")));
  EXPECT_THAT(
      [&] {
        write_safetensors(path("x"), {{"__metadata__", torch::zeros({2})}});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("__metadata__")));
  EXPECT_FALSE(std::filesystem::exists(path("x")));
}

TEST_F(Weights, AFailedWriteLeavesTheEarlierFile) {
  write_safetensors(path("x"), {{"w", torch::ones({3})}});
  const std::string before = testing::contents(path("x"));
  EXPECT_THROW(write_safetensors(path("x"), {{"w", torch::zeros({3}, torch::kComplexFloat)}}), InvalidArgument);
  EXPECT_EQ(testing::contents(path("x")), before);
}

class Checkpoint : public Weights {
 protected:
  std::filesystem::path archive(const std::string& pickle, const std::map<std::string, std::string>& storages) const {
    const auto file = path("made.pt");
    caffe2::serialize::PyTorchStreamWriter writer(file.string());
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    for (const auto& [key, data] : storages) writer.writeRecord("data/" + key, data.data(), data.size());
    writer.writeEndOfFile();
    return file;
  }
  static std::string floats(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};

TEST_F(Checkpoint, ReadsAStateDictAsPythonSavesIt) {
  Pickle pickle;
  pickle.ordered_dict().raw(std::string("q\x00", 2)).raw("(");
  pickle.text("conv.weight").tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1});
  pickle.text("conv.transposed").tensor("FloatStorage", "0", 6, 0, {3, 2}, {1, 3});
  pickle.text("conv.part").tensor("FloatStorage", "0", 6, 4, {2}, {1});
  pickle.text("half").tensor("HalfStorage", "1", 2, 0, {2}, {1});
  pickle.text("count").tensor("LongStorage", "2", 1, 0, {}, {});
  // The versions of the modules, which Python hangs onto the dictionary as an attribute.
  pickle.raw("u}").text("_metadata").ordered_dict().raw("(").text("").raw("}").text("version").raw("K\x01susb.");
  const std::uint16_t halves[] = {0x3c00, 0xc000};
  const std::int64_t count = 77;
  const auto file = archive(pickle.bytes, {{"0", floats({0, 1, 2, 3, 4, 5})},
                                           {"1", std::string(reinterpret_cast<const char*>(halves), 4)},
                                           {"2", std::string(reinterpret_cast<const char*>(&count), 8)}});
  const NamedTensors tensors = read_weights(file);
  ASSERT_EQ(tensors.size(), 5U);
  EXPECT_TRUE(tensors.at("conv.weight").equal(torch::arange(6, torch::kFloat32).view({2, 3})));
  EXPECT_TRUE(tensors.at("conv.transposed").equal(torch::arange(6, torch::kFloat32).view({2, 3}).t()));
  EXPECT_TRUE(tensors.at("conv.part").equal(torch::tensor({4.0F, 5.0F})));
  EXPECT_TRUE(tensors.at("half").equal(torch::tensor({1.0F, -2.0F})));
  EXPECT_EQ(tensors.at("count").item<std::int64_t>(), 77);
}

TEST_F(Checkpoint, FindsTheStateDictOfALargerCheckpoint) {
  Pickle pickle;
  pickle.raw("}(").text("epoch").integer(3).text("state_dict").raw("}").text("w").tensor("FloatStorage", "0", 1, 0, {1}, {1}).raw("su.");
  EXPECT_EQ(read_pytorch(archive(pickle.bytes, {{"0", floats({9})}})).at("w").item<float>(), 9);
}

TEST_F(Checkpoint, ReadsWhatLibTorchPickles) {
  c10::Dict<std::string, torch::Tensor> state;
  state.insert("w", torch::arange(4, torch::kFloat32).view({2, 2}));
  const std::vector<char> bytes = torch::pickle_save(state);
  const auto file = write("own.pt", std::string(bytes.begin(), bytes.end()));
  EXPECT_TRUE(read_weights(file).at("w").equal(torch::arange(4, torch::kFloat32).view({2, 2})));
}

TEST_F(Checkpoint, RefusesPicklesThatAreNoStateDicts) {
  const auto refused = [&](const std::string& pickle, const std::string& words) {
    const auto file = archive(pickle, {{"0", floats({1, 2})}});
    EXPECT_THAT([&] { read_pytorch(file); }, ThrowsMessage<IoError>(AllOf(HasSubstr("made.pt"), HasSubstr(words), Not(HasSubstr("\n")))))
        << words;
  };
  const auto one = [](const Pickle& tensor) { return Pickle().raw("}").text("w").raw(tensor.bytes.substr(2)).raw("s.").bytes; };
  refused(Pickle().global("os", "system").text("true").raw("\x85R.").bytes, "'os.system'");
  refused(Pickle().integer(3).raw(".").bytes, "no state dict");
  refused(Pickle().raw("}").text("epoch").integer(1).raw("s.").bytes, "no state dict");
  refused(Pickle().raw("}").bytes, "cut short");
  refused(Pickle().raw("R.").bytes, "nothing on the stack");
  refused(Pickle().raw("t.").bytes, "no mark");
  refused(Pickle().raw("h\x05.").bytes, "reference to nothing");
  refused(Pickle().raw("\xff").bytes, "0xff");
  refused(one(Pickle().tensor("FloatStorage", "0", 2, 0, {3}, {1})), "past the end");
  refused(one(Pickle().tensor("FloatStorage", "0", 2, 2, {1}, {1})), "past the end");
  refused(one(Pickle().tensor("FloatStorage", "0", 2, 0, {100000, 100000}, {0, 0})), "past the end");
  refused(one(Pickle().tensor("FloatStorage", "0", 2, 0, {2}, {2147483647})), "past the end");
  refused(one(Pickle().tensor("FloatStorage", "0", 2, -1, {1}, {1})), "impossible shape");
  refused(one(Pickle().tensor("FloatStorage", "0", 3, 0, {1}, {1})), "has 8 bytes");
  refused(one(Pickle().tensor("FloatStorage", "7", 2, 0, {2}, {1})), "'7' is missing");
  refused(one(Pickle().tensor("ComplexFloatStorage", "0", 1, 0, {1}, {1})), "ComplexFloatStorage");
  refused(Pickle().raw(std::string(200000, '(') + std::string(200000, 't') + ".").bytes, "no state dict");
}

TEST_F(Checkpoint, RefusesArchivesThatAreDamaged) {
  const auto file = archive(Pickle().raw("}.").bytes, {});
  const std::string whole = testing::contents(file);
  EXPECT_THAT([&] { read_weights(write("cut.pt", whole.substr(0, whole.size() / 2))); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("cut.pt"), Not(HasSubstr("\n")))));
  EXPECT_THAT([&] { read_weights(write("pk.pt", "PK")); }, ThrowsMessage<IoError>(HasSubstr("pk.pt")));
}

TEST_F(Checkpoint, ReadsTheFormatBeforeZip) {
  // As PyTorch 0.1 wrote parameters: a Parameter made of a tensor, with attributes.
  Pickle state;
  state.ordered_dict().raw("(").text("a").global("torch.nn.parameter", "Parameter");
  state.tensor("FloatStorage", "17", 4, 1, {3}, {1})
      .raw("\x88\x86R}b")
      .text("b")
      .tensor("FloatStorage", "17", 4, 0, {2, 2}, {2, 1})
      .raw("u.");
  const std::string keys = Pickle().raw("]").text("17").raw("a.").bytes;
  const std::string whole = old_file(state.bytes, keys, length_of(4) + floats({1, 2, 3, 4}));
  const NamedTensors tensors = read_weights(write("old.pth", whole));
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_TRUE(tensors.at("a").equal(torch::tensor({2.0F, 3.0F, 4.0F})));
  EXPECT_TRUE(tensors.at("b").equal(torch::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({2, 2})));
  const auto refused = [&](const std::string& bytes, const char* words) {
    EXPECT_THAT([&] { read_weights(write("old.pth", bytes)); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("old.pth"), HasSubstr(words), Not(HasSubstr("\n")))));
  };
  for (std::size_t length = 15; length < whole.size(); ++length) refused(whole.substr(0, length), "cut short");
  refused(old_file(state.bytes, keys, length_of(5) + floats({1, 2, 3, 4, 5})), "storage '17' of 4 elements is damaged");
  refused(old_file(state.bytes, Pickle().raw("].").bytes, ""), "'17' is missing");
  refused(old_file(state.bytes, Pickle().raw("]").text("18").raw("a.").bytes, ""), "no tensor has");
}

TEST_F(Weights, AModelReadsItsOwnWeights) {
  const auto first = make_model({.seed = 1});
  const auto second = make_model({.seed = 2});
  write_safetensors(path("x"), first->state());
  load_into(*second, read_weights(path("x")));
  const NamedTensors state = second->state();
  for (const auto& [name, tensor] : first->state()) EXPECT_TRUE(tensor.equal(state.at(name))) << name;
  EXPECT_TRUE(state.at("embedding.weight").requires_grad());
}

TEST_F(Weights, LoadingNamesAllThatDoesNotFitAndChangesNothing) {
  const auto model = make_model({});
  NamedTensors tensors;
  for (const auto& [name, tensor] : model->state()) tensors[name] = torch::full_like(tensor, 7);
  tensors.erase("conv2.weight");
  tensors.erase("norm1.bias");
  tensors["extra"] = torch::zeros({1});
  tensors["embedding.bias"] = torch::zeros({32});
  EXPECT_THAT(
      [&] { load_into(*model, tensors, {.source = "file.safetensors"}); },
      ThrowsMessage<IoError>(AllOf(HasSubstr("file.safetensors"), HasSubstr("2 missing ('conv2.weight', 'norm1.bias')"),
                                   HasSubstr("1 surplus ('extra')"), HasSubstr("1 misshapen ('embedding.bias' [32] instead of [64])"))));
  EXPECT_NE(model->state().at("conv1.weight").flatten()[0].item<float>(), 7);
}

TEST_F(Weights, ANewLayerMayBeMissingOnlyWhenAllowed) {
  const auto model = make_model({});
  NamedTensors tensors;
  for (const auto& [name, tensor] : model->state()) tensors["module." + name] = torch::full_like(tensor, 7);
  tensors.erase("module.embedding.weight");
  tensors.erase("module.embedding.bias");
  EXPECT_THAT([&] { load_into(*model, tensors, {.rename = {{"module.", ""}}}); }, ThrowsMessage<IoError>(HasSubstr("embedding.bias")));
  load_into(*model, tensors, {.new_layer_may_be_missing = true, .rename = {{"module.", ""}}});
  EXPECT_EQ(model->state().at("conv1.weight").min().item<float>(), 7);
  EXPECT_NE(model->state().at("embedding.weight").max().item<float>(), 7);
}

TEST_F(Weights, LoseTheNameOfAWrapperThatAllHave) {
  const torch::Tensor one = torch::ones({1});
  EXPECT_EQ(without_wrapper({{"module.a.weight", one}, {"module.b", one}}).count("a.weight"), 1U);
  EXPECT_EQ(without_wrapper({{"_orig_mod.module.a", one}}).count("a"), 1U);
  EXPECT_EQ(without_wrapper({{"module._orig_mod.a", one}}).count("a"), 1U);
  EXPECT_EQ(without_wrapper({{"module.a", one}, {"b", one}}).count("module.a"), 1U);
  EXPECT_EQ(without_wrapper({{"module.", one}}).count("module."), 1U);
  EXPECT_TRUE(without_wrapper({}).empty());
}

TEST_F(Checkpoint, ATorchScriptFileIsSaidToBeABackbone) {
  torch::jit::Module net("Net");
  net.register_parameter("w", torch::ones({2}), /*is_buffer=*/false);
  net.define("def forward(self, x):\n  return x * self.w\n");
  net.save(path("net.pt").string());
  EXPECT_THAT([&] { read_weights(path("net.pt")); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("net.pt: a TorchScript file"), HasSubstr("--backbone"))));
}

TEST_F(Weights, OfAnotherNetworkAreRefused) {
  const auto small = make_model({});
  const auto googlenet = make_model({.backbone = "googlenet"});
  NamedTensors published = googlenet->state();
  published["loss3/classifier.weight"] = torch::zeros({1000, 1024});
  EXPECT_NO_THROW(load_into(*googlenet, published));  // the classifier is left out
  EXPECT_THAT([&] { load_into(*small, published, {.source = "x.caffemodel"}); },
              ThrowsMessage<IoError>("x.caffemodel: these are weights of googlenet, not weights of small; check the backbone"));
  published.erase("conv1/7x7_s2.weight");  // of nobody that is known
  EXPECT_THAT([&] { load_into(*small, published); }, ThrowsMessage<IoError>(AllOf(HasSubstr("not weights of small"), HasSubstr("missing"),
                                                                                  HasSubstr("surplus"), HasSubstr("..."))));
}

}  // namespace
}  // namespace smartmine
