#include <smartmine/data/glyphs.h>
#include <smartmine/graph/exact_knn.h>

#include <cstdio>

int main() {
  const float points[] = {0, 1, 3, 7};
  const auto result = smartmine::ExactKnn({.neighbors = 1}).neighbors(smartmine::Rows(points, 4, 1));
  std::printf("nearest of point 3 is point %u at squared distance %g\n", result.lists.ids(3)[0], result.lists.distances(3)[0]);
  const auto image = smartmine::decode_image(smartmine::encode_png(smartmine::make_glyphs().train.image(0)), "glyph");
  std::printf("a glyph is %zu x %zu\n", image.width, image.height);
}
