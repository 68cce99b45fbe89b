#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "smartmine/core/npy.h"
#include "smartmine/core/random.h"
#include "smartmine/data/data_uri.h"
#include "smartmine/data/image.h"

namespace smartmine::test {

using Json = nlohmann::ordered_json;

/// What a made run directory is to have in it.
struct MadeRun {
  std::string dataset = "cub200";
  std::string system = "triplet-fanng-global-adaptive";
  std::int64_t epochs = 4;
  std::int64_t epochs_done = 4;
  std::size_t classes = 5;
  std::size_t images_of_class = 6;
  std::size_t dimension = 8;
  std::size_t side = 24;     ///< Of images.
  double noise = 0;          ///< Grain on images, which makes their files large.
  bool report_files = true;  ///< As newer runs have them.
  bool embeddings = true;
  std::string first_class_name = "class 0";
  std::string first_name = "class0/image0.jpg";
};

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::byte> made_jpeg(const MadeRun& made, std::uint64_t number) {
  Image image(made.side, made.side);
  Random random(3, number);
  for (std::size_t y = 0; y < made.side; ++y)
    for (std::size_t x = 0; x < 3 * made.side; ++x)
      image.row(y)[x] = static_cast<std::uint8_t>(128 + 60 * std::sin(0.2 * static_cast<double>(x / 3 * (number % 7) + y)) +
                                                  made.noise * (random.uniform() - 0.5));
  return encode_jpeg(image, 80);
}

inline Json made_epoch(const MadeRun& made, std::int64_t epoch) {
  Json line{{"epoch", epoch}, {"training_error", nullptr}, {"kappa", nullptr}, {"loss", nullptr}, {"notes", Json::array()}};
  line["evaluated_on"] = "test";
  line["metrics"] = {{"recall@1", 0.4}, {"recall@2", 0.5}, {"recall@4", 0.6}, {"recall@8", 0.7}, {"nmi", 0.5}};
  line["stage_seconds"] = {{"steps", 4.0}, {"evaluation", 1.0}};
  if (epoch == 0) return line;
  line["training_error"] = 0.6;
  line["loss"] = 0.3;
  if (made.report_files) {
    line["validation_error"] = 0.2;
    line["loss_parts"] = {{"triplet", 0.2}, {"global", 0.1}};
    line["distances"] = {{"positive", std::vector<int>(64, 5)}, {"negative", std::vector<int>(64, 7)}, {"max", 4.0}};
  }
  return line;
}

/// A run directory as the trainer leaves it, without a training.
inline void make_run(const std::filesystem::path& path, const MadeRun& made = {}) {
  write_file(path / "config.toml", "dataset = \"" + made.dataset + "\"\nsystem = \"" + made.system +
                                       "\"\nepochs = " + std::to_string(made.epochs) +
                                       "\ntarget-error = 0.6\nskip-bad-images = false\nsave-epochs = [2, 4]\nweights = 'a \"b\".pt'\n");
  std::string log;
  for (std::int64_t epoch = 0; epoch <= made.epochs_done; ++epoch) log += made_epoch(made, epoch).dump() + "\n";
  write_file(path / "log.jsonl", log);
  const std::size_t count = made.classes * made.images_of_class;
  std::vector<std::int64_t> labels;
  std::vector<float> rows;
  Json names = Json::array(), classes = Json::array(), offsets = Json::array({0});
  std::string jpegs;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t label = i / made.images_of_class;
    labels.push_back(static_cast<std::int64_t>(100 + label));
    Random centre(1, label), own(2, i);
    std::vector<double> row;
    double length = 0;
    for (std::size_t d = 0; d < made.dimension; ++d) {
      row.push_back(centre.normal() + 0.4 * own.normal());
      length += row.back() * row.back();
    }
    for (const double value : row) rows.push_back(static_cast<float>(value / std::sqrt(length)));
    names.push_back(i == 0 ? made.first_name
                           : "class" + std::to_string(label) + "/a_longer_name_of_an_image_" + std::to_string(i) + ".jpg");
    if (made.report_files) {
      const auto file = made_jpeg(made, i);
      jpegs.append(reinterpret_cast<const char*>(file.data()), file.size());
    }
    offsets.push_back(jpegs.size());
  }
  for (std::size_t label = 0; label < made.classes; ++label)
    classes.push_back({{"label", 100 + label}, {"name", label == 0 ? made.first_class_name : "class " + std::to_string(label)}});
  if (made.embeddings) {
    std::filesystem::create_directories(path / "embeddings");
    write_npy(path / "embeddings/labels.npy", std::span<const std::int64_t>(labels), {count});
    char name[32];
    std::snprintf(name, sizeof name, "epoch-%04d.npy", static_cast<int>(made.epochs_done));
    write_npy(path / "embeddings" / name, std::span<const float>(rows), {count, made.dimension});
  }
  if (!made.report_files) return;
  write_file(path / "report/evaluation.jpegs", jpegs);
  write_file(path / "report/evaluation.json",
             Json{{"split", "test"}, {"names", names}, {"labels", labels}, {"classes", classes}, {"image_offsets", offsets}}.dump());
  for (const std::int64_t epoch : {2, 4}) {
    Json anchors = Json::array();
    for (std::size_t a = 0; a < 6; ++a) {
      const auto picture = [&](std::size_t number) {
        return Json{{"name", "train/" + std::to_string(number)},
                    {"class", "trained " + std::to_string(number % 7)},
                    {"image", jpeg_data_uri(made_jpeg(made, number))}};
      };
      Json anchor = picture(a);
      for (const char* kind : {"mined", "random"}) {
        anchor[kind] = Json::array();
        for (std::size_t t = 0; t < 2; ++t) {
          Json positive = picture(a + 10 * t + 50), negative = picture(a + 10 * t + 90);
          positive["distance"] = 0.5;
          negative["distance"] = 0.25;
          anchor[kind].push_back({{"positive", positive}, {"negative", negative}, {"kind", kind}});
        }
      }
      anchors.push_back(anchor);
    }
    char name[32];
    std::snprintf(name, sizeof name, "triplets-%04d.json", static_cast<int>(epoch));
    write_file(path / "report" / name, Json{{"epoch", epoch}, {"kappa", 2.5}, {"anchors", anchors}}.dump());
  }
}

}  // namespace smartmine::test
