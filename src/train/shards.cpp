#include "train/shards.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"
#include "train/upload.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kDropout = 0x7202, kShardDropout = 0x7204, kTurns = 0x7205 };

/// Labels of a batch, and its items behind them, so that one copy takes both to the device.
class Labels {
 public:
  Labels(const Epoch& epoch, std::span<const std::uint32_t> items) : count_(items.size()), values_(2 * items.size()) {
    for (std::size_t i = 0; i < count_; ++i) {
      values_[i] = epoch.data.labels.class_of(items[i]);
      values_[count_ + i] = items[i];
    }
    both_ = upload(torch::from_blob(values_.data(), {2, static_cast<std::int64_t>(count_)}, torch::kInt64), epoch.network.device);
  }
  /// With what the batch's memory has of the nearest others.
  BatchLabels view(const Batch& batch) const {
    BatchLabels known{.host = std::span(values_).first(count_), .device = both_[0], .items = both_[1]};
    if (batch.memory != nullptr) known.memory = batch.memory->recall(batch.items);
    return known;
  }

 private:
  std::size_t count_;
  std::vector<std::int64_t> values_;
  torch::Tensor both_;
};

torch::Tensor embed_part(const Epoch& epoch, EmbeddingModel& model, const Batch& batch, RankShare part) {
  const auto items = batch.items.subspan(part.begin, part.end - part.begin);
  std::vector<std::uint64_t> keys(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) keys[i] = batch.first_key + part.begin + i;
  const Network& network = epoch.network;
  torch::Tensor images = epoch.data.training.images->get(items);
  if (epoch.config.data.turned_classes) {
    std::vector<std::uint32_t> classes(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) classes[i] = epoch.data.labels.class_of(items[i]);
    // What was chosen for being near upright stays near only if all are turned alike.
    const bool mined = epoch.system.traits.mines && epoch.number > epoch.config.mining.warmup_epochs.value_or(0);
    const std::uint64_t seed = epoch_seed(epoch.config.compute.seed, kTurns, epoch.number);
    images = turned(images, draw_turns(!mined, seed, batch.number, classes));
  }
  images = network.augmenter.training(images, static_cast<std::uint64_t>(epoch.number), keys, network.type);
  return epoch.system.traits.unit_norm ? model.forward(images) : model.raw(images);
}

std::vector<torch::Tensor> trainable(const EmbeddingModel& model) {
  std::vector<torch::Tensor> parameters;
  for (const torch::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) parameters.push_back(parameter);
  return parameters;
}

std::size_t shards_of(const Epoch& epoch) { return static_cast<std::size_t>(epoch.config.compute.shards.value_or(1)); }

/// The rank that passes a shard: each has a stretch of them.
int owner_of(const Epoch& epoch, std::size_t shard) {
  const auto ranks = static_cast<std::size_t>(epoch.ranks == nullptr ? 1 : epoch.ranks->size());
  return static_cast<int>(shard * ranks / shards_of(epoch));
}

/// A network that passes shards: the model itself, or a twin of it.
struct Passer {
  EmbeddingModel& model;
  std::vector<torch::Tensor> parameters, buffers;

  explicit Passer(EmbeddingModel& of) : model(of), parameters(trainable(of)) {
    for (const auto& buffer : of.named_buffers()) buffers.push_back(buffer.value());
  }
  /// Makes it a twin again, whatever has been done to the model since.
  void resemble(const EmbeddingModel& original) const {
    model.train(original.is_training());
    const auto theirs = original.parameters(), own = model.parameters();
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].data_ptr() != theirs[i].data_ptr()) torch::Tensor(own[i]).set_data(theirs[i].data());
  }
  // Through `data`, for backward passes to come mind that what they have seen is changed, though batch norms do not use it there.
  void put_back(const std::vector<torch::Tensor>& values) const {
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].data().copy_(values[i]);
  }
};

/// The shards of a batch that this rank passes, and the tree in which all are added.
class ShardedPass {
 public:
  ShardedPass(const Epoch& epoch, const Batch& batch)
      : epoch_(epoch), batch_(batch), shards_(shards_of(epoch)), embedded_(shards_), gradients_(shards_) {
    passers_.emplace_back(*epoch.network.model);
    for (const auto& twin : epoch.network.twins) {
      passers_.emplace_back(*twin);
      passers_.back().resemble(*epoch.network.model);
    }
    for (std::size_t shard = 0; shard < shards_; ++shard)
      if (owner(shard) == rank()) own_.push_back(shard);
  }

  Pass run() {
    const Labels labels(epoch_, batch_.items);
    const std::vector<torch::Tensor> remembered = copies(passers_[0].buffers);
    pass([&](std::size_t shard, const Passer& passer) { forward(shard, passer, remembered); });
    passers_[0].put_back(remembered);  // until all have been told that the step goes on
    torch::Tensor all = gathered().to(epoch_.network.device).requires_grad_();
    BatchLoss loss = epoch_.system.loss(all, labels.view(batch_), epoch_.config.system);
    loss.value.backward();
    of_embeddings_ = all.grad();
    pass([&](std::size_t shard, const Passer& passer) { gradients_[shard] = backward(shard, passer); });
    std::optional<torch::Tensor> sum = sum_of(0, shards_);
    torch::Tensor total = sum ? *sum : torch::empty({flat_size()}, torch::kFloat32);
    if (epoch_.ranks != nullptr) {
      float* const value = total.data_ptr<float>() + total.numel() - 1;
      if (rank() == 0) *value = loss.value.item<float>();
      epoch_.ranks->broadcast(total.data_ptr<float>(), static_cast<std::size_t>(total.numel()) * sizeof(float));
      loss.value = torch::tensor(*value).to(epoch_.network.device);
    }
    put_total(total);
    return {.loss = std::move(loss), .embedded = all.detach()};
  }

 private:
  /// All shards of this rank, as many at the same time as there are networks for.
  void pass(const std::function<void(std::size_t shard, const Passer& passer)>& work) {
    const std::size_t at_once = std::min(passers_.size(), own_.size());
    parallel_for(at_once, 1, static_cast<unsigned>(at_once), [&](std::size_t first, std::size_t, unsigned) {
      at::init_num_threads();  // torch's holds for a thread
      for (std::size_t i = first; i < own_.size(); i += at_once) work(own_[i], passers_[first]);
    });
  }
  static std::vector<torch::Tensor> copies(const std::vector<torch::Tensor>& tensors) {
    std::vector<torch::Tensor> result;
    for (const torch::Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
    return result;
  }

  int rank() const { return epoch_.ranks == nullptr ? 0 : epoch_.ranks->rank(); }
  int size() const { return epoch_.ranks == nullptr ? 1 : epoch_.ranks->size(); }
  int owner(std::size_t shard) const { return owner_of(epoch_, shard); }
  RankShare part(std::size_t shard) const { return share_of(batch_.items.size(), static_cast<int>(shard), static_cast<int>(shards_)); }

  void forward(std::size_t shard, const Passer& passer, const std::vector<torch::Tensor>& remembered) {
    const RankShare images = part(shard);
    if (images.begin == images.end) return;
    passer.put_back(remembered);  // every shard begins with what the last step left
    const std::uint64_t seed = epoch_seed(epoch_.config.compute.seed ^ batch_.number, kShardDropout, epoch_.number);
    passer.model.seed_dropout(epoch_seed(seed, kDropout, static_cast<std::int64_t>(shard)));
    embedded_[shard] = {embed_part(epoch_, passer.model, batch_, images), copies(passer.buffers)};
  }

  /// The embeddings of the whole batch, on the host.
  torch::Tensor gathered() const {
    const std::int64_t width = epoch_.network.model->dimension();
    torch::Tensor all = torch::empty({static_cast<std::int64_t>(batch_.items.size()), width}, torch::kFloat32);
    for (std::size_t shard = 0; shard < shards_; ++shard)
      if (embedded_[shard].rows.defined())
        all.narrow(0, static_cast<std::int64_t>(part(shard).begin), embedded_[shard].rows.size(0)).copy_(embedded_[shard].rows.detach());
    if (epoch_.ranks == nullptr) return all;
    std::vector<RankShare> shares(static_cast<std::size_t>(size()));
    std::size_t shard = 0, row = 0;
    for (int r = 0; r < size(); ++r) {
      RankShare& share = shares[static_cast<std::size_t>(r)];
      share.begin = row;
      for (; shard < shards_ && owner(shard) == r; ++shard) row = part(shard).end;
      share.end = row;
    }
    epoch_.ranks->gather_rows(all.data_ptr<float>(), static_cast<std::size_t>(width) * sizeof(float), shares);
    return all;
  }

  // What goes up the tree, as one row of floats: the gradients of all parameters, what batch norms remember, for each parameter whether it
  // has a gradient at all, how many shards it is the sum of, and room for the loss.
  std::int64_t tail_size() const { return static_cast<std::int64_t>(passers_[0].parameters.size()) + 2; }
  std::int64_t flat_size() const {
    std::int64_t total = tail_size();
    for (const auto* tensors : {&passers_[0].parameters, &passers_[0].buffers})
      for (const torch::Tensor& tensor : *tensors) total += tensor.numel();
    return total;
  }

  torch::Tensor backward(std::size_t shard, const Passer& passer) {
    Embedded& own = embedded_[shard];
    if (!own.rows.defined()) return torch::zeros({flat_size()}, torch::kFloat32);  // of no images
    for (const torch::Tensor& parameter : passer.parameters) parameter.mutable_grad().reset();
    own.rows.backward(of_embeddings_.narrow(0, static_cast<std::int64_t>(part(shard).begin), own.rows.size(0)));
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> pieces;
    std::vector<float> has;
    for (const torch::Tensor& parameter : passer.parameters) {
      const torch::Tensor& gradient = parameter.grad();
      has.push_back(gradient.defined() ? 1.0F : 0.0F);
      pieces.push_back(gradient.defined() ? gradient.reshape(-1) : torch::zeros({parameter.numel()}, parameter.options()));
    }
    for (const torch::Tensor& value : own.buffers) pieces.push_back(value.reshape(-1).to(torch::kFloat32));
    has.insert(has.end(), {1.0F, 0.0F});
    pieces.push_back(torch::tensor(has).to(epoch_.network.device));
    own = {};
    return torch::cat(pieces).cpu();
  }

  /// The sum over shards [begin, end), on the rank that passes the first of them.
  std::optional<torch::Tensor> sum_of(std::size_t begin, std::size_t end) {
    const int left_owner = owner(begin);
    if (end - begin == 1) return left_owner == rank() ? std::optional(std::move(gradients_[begin])) : std::nullopt;
    const std::size_t middle = begin + (end - begin + 1) / 2;
    const int right_owner = owner(middle);
    std::optional<torch::Tensor> left = sum_of(begin, middle), right = sum_of(middle, end);
    const std::size_t bytes = static_cast<std::size_t>(flat_size()) * sizeof(float);
    if (left_owner == rank()) {
      if (right_owner != rank()) {
        right = torch::empty({flat_size()}, torch::kFloat32);
        epoch_.ranks->receive(right->data_ptr<float>(), bytes, right_owner);
      }
      left->add_(*right);
    } else if (right_owner == rank()) {
      epoch_.ranks->send(right->data_ptr<float>(), bytes, left_owner);
    }
    return left;
  }

  void put_total(const torch::Tensor& total) {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor>&parameters = passers_[0].parameters, &buffers = passers_[0].buffers;
    const torch::Tensor values = total.to(epoch_.network.device);
    const float* const has = total.data_ptr<float>() + total.numel() - tail_size();
    const float shards = has[parameters.size()];
    std::int64_t place = 0;
    for (std::size_t i = 0; i < parameters.size(); place += parameters[i].numel(), ++i) {
      if (has[i] > 0)
        parameters[i].mutable_grad() = values.narrow(0, place, parameters[i].numel()).view(parameters[i].sizes());
      else
        parameters[i].mutable_grad().reset();
    }
    for (torch::Tensor& buffer : buffers) {  // a count of batches is whole again after the division
      buffer.copy_((values.narrow(0, place, buffer.numel()) / shards).view(buffer.sizes()));
      place += buffer.numel();
    }
  }

  struct Embedded {
    torch::Tensor rows;
    std::vector<torch::Tensor> buffers;
  };

  const Epoch& epoch_;
  const Batch& batch_;
  std::size_t shards_;
  std::vector<Passer> passers_;   // the model, then its twins
  std::vector<std::size_t> own_;  // shards of this rank
  std::vector<Embedded> embedded_;
  std::vector<torch::Tensor> gradients_;
  torch::Tensor of_embeddings_;
};

}  // namespace

std::span<const std::uint32_t> own_items(const Epoch& epoch, std::span<const std::uint32_t> items) {
  if (epoch.ranks == nullptr) return items;
  const std::size_t shards = shards_of(epoch);
  std::size_t begin = items.size(), end = 0;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    if (owner_of(epoch, shard) != epoch.ranks->rank()) continue;
    const RankShare part = share_of(items.size(), static_cast<int>(shard), static_cast<int>(shards));
    begin = std::min(begin, part.begin);
    end = std::max(end, part.end);
  }
  return items.subspan(begin, std::max(begin, end) - begin);
}

std::vector<std::int64_t> draw_turns(bool by_class, std::uint64_t seed, std::size_t batch, std::span<const std::uint32_t> classes) {
  std::vector<std::int64_t> quarters;
  quarters.reserve(classes.size());
  for (const std::uint32_t of : classes) quarters.push_back(static_cast<std::int64_t>(Random(seed, batch, by_class ? of : 0).below(4)));
  return quarters;
}

Pass take_gradients(const Epoch& epoch, const Batch& batch) {
  if (shards_of(epoch) > 1 || epoch.ranks != nullptr) return ShardedPass(epoch, batch).run();
  const Labels labels(epoch, batch.items);
  epoch.network.model->seed_dropout(epoch_seed(epoch.config.compute.seed ^ batch.number, kDropout, epoch.number));
  const torch::Tensor embedded = embed_part(epoch, *epoch.network.model, batch, {0, batch.items.size()});
  BatchLoss loss = epoch.system.loss(embedded, labels.view(batch), epoch.config.system);
  loss.value.backward();
  return {.loss = std::move(loss), .embedded = embedded.detach()};
}

}  // namespace smartmine
