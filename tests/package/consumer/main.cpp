#include <smartmine/graph/exact_knn.h>

#include <cstdio>

int main() {
  const float points[] = {0, 1, 3, 7};
  const auto result = smartmine::ExactKnn({.neighbors = 1}).neighbors(smartmine::Rows(points, 4, 1));
  std::printf("nearest of point 3 is point %u at squared distance %g\n", result.lists.ids(3)[0], result.lists.distances(3)[0]);
}
