#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace smartmine {

/// An owned array whose elements start uninitialised, so that the threads that fill it also touch its pages first.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : data_(std::make_shared_for_overwrite<T[]>(size)), size_(size) {}
  /// Memory from elsewhere, such as a file's.
  Buffer(std::shared_ptr<T[]> data, std::size_t size) : data_(std::move(data)), size_(size) {}
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  std::shared_ptr<T[]> data_;  // of this buffer alone, or of a file
  std::size_t size_ = 0;
};

}  // namespace smartmine
