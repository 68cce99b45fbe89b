#include <fmt/format.h>

#include <utility>

#include "smartmine/data/glyphs.h"

namespace smartmine {

DataSplits make_glyphs(const GlyphOptions& options) {
  options.validate();
  const auto half = [&](const char* split, std::size_t begin, std::size_t end) {
    DatasetContents contents;
    contents.name = "glyphs";
    contents.split = split;
    contents.notes = fmt::format("Characters drawn from seed {}; classes 0 to {} train, {} to {} test.", options.seed,
                                 options.classes / 2 - 1, options.classes / 2, options.classes - 1);
    contents.draw = [options](std::uint64_t drawing) { return draw_glyph(options, drawing); };
    for (std::size_t label = begin; label < end; ++label) {
      contents.classes.push_back({static_cast<std::int64_t>(label), fmt::format("character {}", label)});
      for (std::size_t i = 0; i < options.images_per_class; ++i)
        contents.items.push_back(
            {fmt::format("glyph {}/{}", label, i), static_cast<std::int64_t>(label), label * options.images_per_class + i});
    }
    return Dataset(std::move(contents));
  };
  return {half("train", 0, options.classes / 2), half("test", options.classes / 2, options.classes), std::nullopt};
}

}  // namespace smartmine
