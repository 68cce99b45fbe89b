#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"

// What all parts of the module share: arrays in and out, and long calls that Python can watch and stop.
namespace smartmine::python {

namespace nb = nanobind;

/// Arrays that come in: checked by smartmine._arrays, so that messages say what to call. Read-only ones are welcome.
using FloatMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using IdMatrix = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Triplets = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inline Rows rows_of(const FloatMatrix& matrix) { return {matrix.data(), matrix.shape(0), matrix.shape(1)}; }
inline std::span<const std::int64_t> span_of(const Labels& labels) { return {labels.data(), labels.shape(0)}; }

/// A numpy array over memory that `owner` keeps alive; nothing is copied.
template <std::size_t dimensions, class T, class Owner>
nb::ndarray<nb::numpy, T, nb::ndim<dimensions>> to_numpy(T* data, const std::size_t (&shape)[dimensions], std::shared_ptr<Owner> owner) {
  auto* kept = new std::shared_ptr<Owner>(std::move(owner));
  const nb::capsule capsule(kept, [](void* pointer) noexcept { delete static_cast<std::shared_ptr<Owner>*>(pointer); });
  return {data, dimensions, shape, capsule};
}

/// A numpy array that takes over the vector's memory.
template <std::size_t dimensions, class T>
nb::ndarray<nb::numpy, T, nb::ndim<dimensions>> to_numpy(std::vector<T> values, const std::size_t (&shape)[dimensions]) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return to_numpy(owner->data(), shape, owner);
}

/// A Python callable as a progress callback. Without one, signals such as Ctrl-C are looked for all the same.
class PythonProgress {
 public:
  explicit PythonProgress(nb::handle callable) : callable_(callable) {}
  Progress callback();
  /// Raises what the callable raised, if it did.
  void rethrow();

 private:
  bool report(const ProgressEvent& event);

  nb::handle callable_;
  std::int64_t checked_ = 0;  // when signals were last looked for, in milliseconds
  std::optional<nb::python_error> error_;
};

/// Does `work(progress)` without the interpreter's lock.
template <class Work>
auto run_released(nb::handle callable, const Work& work) {
  PythonProgress progress(callable);
  try {
    const nb::gil_scoped_release release;
    return work(progress.callback());
  } catch (const Cancelled&) {
    progress.rethrow();
    throw;
  }
}

/// Neighbour lists that numpy arrays may look at.
struct SharedLists {
  std::shared_ptr<NeighborLists> lists;
};

nb::dict to_dict(const NeighborStats& stats);

void bind_neighbors(nb::module_& module);
void bind_mining(nb::module_& module);
void bind_metrics(nb::module_& module);
void bind_maps(nb::module_& module);

}  // namespace smartmine::python
