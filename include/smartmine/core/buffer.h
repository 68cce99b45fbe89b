#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace smartmine {

/// An owned array whose elements start uninitialised, so that the threads that fill it also touch its pages first. It begins with a line
/// of the cache: a row of 64 bytes is then in one line and not in two.
template <class T>
class Buffer {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : data_(static_cast<T*>(::operator new[](size * sizeof(T), kLine)), Release()), size_(size) {}
  /// Memory from elsewhere, such as a file's.
  Buffer(std::shared_ptr<T[]> data, std::size_t size) : data_(std::move(data)), size_(size) {}
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Release {
    void operator()(T* data) const { ::operator delete[](data, kLine); }
  };
  std::shared_ptr<T[]> data_;  // of this buffer alone, or of a file
  std::size_t size_ = 0;
};

}  // namespace smartmine
