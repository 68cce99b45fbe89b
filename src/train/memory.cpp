#include "train/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "smartmine/core/error.h"
#include "smartmine/model/weights.h"
#include "train/upload.h"

namespace smartmine {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::size_t kNegativesOfAPositive = 8;

}  // namespace

Memory::Memory(const torch::Tensor& embeddings, const NeighborLists& lists, const LabelIndex& labels, std::size_t neighbors)
    : rows_(embeddings.detach().clone()), labels_(&labels) {
  // Near positives alone would tell a batch of a class that lies close together nothing of what else is there.
  const std::size_t positives = std::max<std::size_t>(1, neighbors / kNegativesOfAPositive);
  neighbors_ = std::min(neighbors + positives, lists.neighbors());
  near_.assign(lists.size() * neighbors_, kNone);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::uint32_t own = labels.class_of(static_cast<std::uint32_t>(i));
    std::size_t of_others = 0, of_own = 0;
    for (const std::uint32_t id : lists.ids(i)) {
      const bool positive = labels.class_of(id) == own;
      if (positive ? of_own == positives : of_others == neighbors) continue;
      near_[i * neighbors_ + of_own + of_others] = static_cast<std::int32_t>(id);
      ++(positive ? of_own : of_others);
    }
  }
}

Memory::Memory(const std::filesystem::path& file, const LabelIndex& labels, torch::Device device) : labels_(&labels) {
  const NamedTensors saved = read_safetensors(file);
  const auto find = [&](const char* name) {
    const auto found = saved.find(name);
    if (found == saved.end() || found->second.dim() != 2 || found->second.size(0) != static_cast<std::int64_t>(labels.size()))
      throw IoError(fmt::format("{}: damaged", file.string()));
    return found->second;
  };
  rows_ = find("rows").to(torch::kFloat32).to(device);
  const torch::Tensor near = find("near").to(torch::kInt32).contiguous();
  neighbors_ = static_cast<std::size_t>(near.size(1));
  near_.assign(near.data_ptr<std::int32_t>(), near.data_ptr<std::int32_t>() + near.numel());
  for (const std::int32_t id : near_)
    if (id < kNone || id >= static_cast<std::int64_t>(labels.size())) throw IoError(fmt::format("{}: damaged", file.string()));
}

void Memory::save(const std::filesystem::path& file) const {
  std::vector<std::int32_t> near = near_;
  const torch::Tensor ids =
      torch::from_blob(near.data(), {static_cast<std::int64_t>(labels_->size()), static_cast<std::int64_t>(neighbors_)}, torch::kInt32);
  write_safetensors(file, {{"rows", rows_.cpu()}, {"near", ids}});
}

ReferenceRows Memory::recall(std::span<const std::uint32_t> items) const {
  std::vector<std::int64_t> ids;
  ids.reserve(items.size() * neighbors_);
  for (const std::uint32_t item : items) {
    const auto near = std::span(near_).subspan(item * neighbors_, neighbors_);
    ids.insert(ids.end(), near.begin(), std::find(near.begin(), near.end(), kNone));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<std::uint32_t> own(items.begin(), items.end());
  std::sort(own.begin(), own.end());
  std::erase_if(ids, [&](std::int64_t id) { return std::binary_search(own.begin(), own.end(), static_cast<std::uint32_t>(id)); });
  if (ids.empty()) return {};
  const std::size_t count = ids.size();
  for (std::size_t i = 0; i < count; ++i) ids.push_back(labels_->class_of(static_cast<std::uint32_t>(ids[i])));
  const torch::Tensor both = upload(torch::from_blob(ids.data(), {2, static_cast<std::int64_t>(count)}, torch::kInt64), rows_.device());
  return {.rows = rows_.index_select(0, both[0]), .labels = both[1], .items = both[0]};
}

void Memory::refresh(std::span<const std::uint32_t> items, const torch::Tensor& embeddings) {
  // Which rows are the last of their image: written twice, the order would be the device's choice.
  std::vector<std::int64_t> order(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const auto first = items[static_cast<std::size_t>(a)], second = items[static_cast<std::size_t>(b)];
    return first != second ? first < second : a > b;
  });
  order.erase(
      std::unique(order.begin(), order.end(),
                  [&](std::int64_t a, std::int64_t b) { return items[static_cast<std::size_t>(a)] == items[static_cast<std::size_t>(b)]; }),
      order.end());
  const std::size_t count = order.size();
  for (std::size_t i = 0; i < count; ++i) order.push_back(items[static_cast<std::size_t>(order[i])]);
  const torch::Tensor both = upload(torch::from_blob(order.data(), {2, static_cast<std::int64_t>(count)}, torch::kInt64), rows_.device());
  const torch::Tensor fresh = embeddings.detach().to(rows_.scalar_type()).index_select(0, both[0]);
  // A row that is no number would be recalled again and again, and spoil every batch near it.
  rows_.index_copy_(0, both[1], torch::where(torch::isfinite(fresh).all(1, /*keepdim=*/true), fresh, rows_.index_select(0, both[1])));
}

}  // namespace smartmine
