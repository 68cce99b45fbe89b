#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smartmine {

/// Labels of any values as classes 0, 1, ... in ascending order of the label, with the members of each.
/// Immutable; concurrent reads are safe. Eight bytes a point and twelve a class.
class LabelIndex {
 public:
  /// Throws InvalidArgument for no labels, more than kMaxRows of them, or one class only (no negative exists then).
  explicit LabelIndex(std::span<const std::int64_t> labels);

  std::size_t size() const { return class_of_.size(); }
  std::size_t classes() const { return labels_.size(); }
  std::uint32_t class_of(std::size_t point) const { return class_of_[point]; }
  /// The label that stands behind a class.
  std::int64_t label(std::uint32_t label_class) const { return labels_[label_class]; }
  std::size_t class_size(std::uint32_t label_class) const { return offsets_[label_class + 1] - offsets_[label_class]; }
  /// Points of a class, ascending.
  std::span<const std::uint32_t> members(std::uint32_t label_class) const {
    return {by_class_.data() + offsets_[label_class], class_size(label_class)};
  }
  /// Class of every point.
  std::span<const std::uint32_t> class_ids() const { return class_of_; }
  /// All points, class after class; those of class c start at `class_offset(c)`.
  std::span<const std::uint32_t> by_class() const { return by_class_; }
  std::size_t class_offset(std::uint32_t label_class) const { return offsets_[label_class]; }

  /// Classes (so points) of one member, which have no positive.
  std::size_t single_member_classes() const { return single_member_classes_; }
  /// Points with at least one positive, ascending: everyone who can be an anchor.
  std::vector<std::uint32_t> anchors() const;

  /// Throws InvalidArgument unless there are `size` labels; `what` names the other side, e.g. "embeddings".
  void require_size(std::size_t size, const char* what) const;

 private:
  std::vector<std::uint32_t> class_of_;
  std::vector<std::int64_t> labels_;
  std::vector<std::uint32_t> offsets_;
  std::vector<std::uint32_t> by_class_;
  std::size_t single_member_classes_ = 0;
};

}  // namespace smartmine
