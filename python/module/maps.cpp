#include <string>

#include "binding.h"
#include "smartmine/core/parallel.h"
#include "smartmine/data/glyphs.h"
#include "smartmine/report/tsne.h"

namespace smartmine::python {
namespace {

nb::tuple make_map(const FloatMatrix& matrix, double perplexity, std::size_t iterations, std::size_t early, double exaggeration,
                   double theta, double learning_rate, std::uint64_t seed, unsigned threads, nb::handle progress) {
  const TsneOptions options{.perplexity = perplexity,
                            .iterations = iterations,
                            .early = early,
                            .exaggeration = exaggeration,
                            .theta = theta,
                            .learning_rate = learning_rate,
                            .seed = seed,
                            .threads = threads};
  const TsneResult map = run_released(progress, [&](const Progress& report) {
    const Rows rows = rows_of(matrix);
    check_rows(rows, threads);
    return tsne(rows, options, report);
  });
  std::vector<double> places(2 * map.x.size());
  for (std::size_t i = 0; i < map.x.size(); ++i) {
    places[2 * i] = map.x[i];
    places[2 * i + 1] = map.y[i];
  }
  nb::dict told;
  told["perplexity"] = map.stats.perplexity;
  told["neighbors"] = map.stats.neighbors;
  told["divergence"] = map.stats.divergence;
  told["seconds"] = map.stats.seconds;
  return nb::make_tuple(to_numpy<2>(std::move(places), {map.x.size(), 2}), told);
}

nb::tuple draw_glyphs(std::size_t classes, bool test, std::size_t images_per_class, std::size_t size, std::uint64_t seed,
                      unsigned threads) {
  const GlyphOptions options{.classes = classes, .images_per_class = images_per_class, .size = size, .seed = seed};
  options.validate();
  const std::size_t first_class = test ? classes / 2 : 0;
  const std::size_t count = (test ? classes - classes / 2 : classes / 2) * images_per_class;
  std::vector<std::uint8_t> pixels(count * size * size);
  std::vector<std::int64_t> labels(count);
  run_released(nb::none(), [&](const Progress& report) {
    parallel_for(
        count, 16, threads,
        [&](std::size_t begin, std::size_t end, unsigned) {
          for (std::size_t i = begin; i < end; ++i) {
            const Image image = draw_glyph(options, first_class * images_per_class + i);
            // Grey, so one of the three channels is all there is.
            for (std::size_t at = 0; at < size * size; ++at) pixels[i * size * size + at] = image.pixels[3 * at];
            labels[i] = static_cast<std::int64_t>(first_class + i / images_per_class);
          }
        },
        report, "draw");
  });
  return nb::make_tuple(to_numpy<3>(std::move(pixels), {count, size, size}), to_numpy<1>(std::move(labels), {count}));
}

}  // namespace

void bind_maps(nb::module_& module) {
  module.def("tsne", &make_map, nb::arg("rows"), nb::arg("perplexity"), nb::arg("iterations"), nb::arg("early"), nb::arg("exaggeration"),
             nb::arg("theta"), nb::arg("learning_rate"), nb::arg("seed"), nb::arg("threads"), nb::arg("progress").none());
  module.def("draw_glyphs", &draw_glyphs, nb::arg("classes"), nb::arg("test"), nb::arg("images_per_class"), nb::arg("size"),
             nb::arg("seed"), nb::arg("threads"));
}

}  // namespace smartmine::python
