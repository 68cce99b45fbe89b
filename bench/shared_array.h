#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <span>
#include <utility>

namespace smartmine::bench {

/// Memory that child processes share with their parent. A child's own memory then tells what a method took, for pages of
/// this kind count only once the method reads them. Trivial types only.
template <class T>
class SharedArray {
 public:
  SharedArray() = default;
  explicit SharedArray(std::size_t size) : size_(size) {
    void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  ~SharedArray() {
    if (data_ != nullptr) munmap(data_, bytes());
  }
  SharedArray(SharedArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SharedArray& operator=(SharedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  std::size_t bytes() const { return (size_ == 0 ? 1 : size_) * sizeof(T); }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace smartmine::bench
