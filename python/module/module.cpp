#include <chrono>

#include "binding.h"
#include "smartmine/core/parallel.h"

namespace smartmine::python {
namespace {

constexpr std::int64_t kBetweenChecks = 50;  // milliseconds; Ctrl-C need not be quicker

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress PythonProgress::callback() {
  checked_ = now();
  return [this](const ProgressEvent& event) { return report(event); };
}

bool PythonProgress::report(const ProgressEvent& event) {
  const std::int64_t time = now();
  const bool check = time - checked_ >= kBetweenChecks;
  if (callable_.is_none() && !check) return true;
  const nb::gil_scoped_acquire acquire;
  try {
    if (check) {
      checked_ = time;
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    }
    if (callable_.is_none()) return true;
    const nb::object answer =
        callable_(nb::str(event.stage.data(), event.stage.size()), event.done, event.total, nb::str(event.unit.data(), event.unit.size()));
    return answer.ptr() != Py_False;
  } catch (nb::python_error& error) {
    error_.emplace(std::move(error));
    return false;
  }
}

void PythonProgress::rethrow() {
  if (error_) throw nb::python_error(std::move(*error_));
}

}  // namespace smartmine::python

NB_MODULE(_core, module) {
  namespace nb = nanobind;
  using namespace smartmine;  // NOLINT(google-build-using-namespace): of the module's own function
  module.doc() = "The compiled half of smartmine. Use the functions of the package smartmine.";
  nb::exception<Error> error(module, "Error");
  nb::exception<InvalidArgument>(module, "InvalidArgument", PyExc_ValueError);
  nb::exception<IoError>(module, "IoError", PyExc_OSError);
  nb::exception<Cancelled>(module, "Cancelled", error.ptr());
  nb::exception<InternalError>(module, "InternalError", error.ptr());
  module.attr("version") = SMARTMINE_VERSION;
  module.def("resolve_threads", &resolve_threads, nb::arg("threads"));
  module.def("peak_memory_bytes", &peak_memory_bytes);
  python::bind_neighbors(module);
  python::bind_mining(module);
  python::bind_metrics(module);
  python::bind_maps(module);
}
