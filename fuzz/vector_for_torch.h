#pragma once

// LibTorch 1.13 declares a class with a std::vector of a type that is not complete yet. In C++20 clang looks into the vector at once, for
// all of it is constexpr there, and refuses; gcc waits. So this is included before everything else: a vector that is not constexpr.
#include <algorithm>
#include <memory>
#include <string>
#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // is declared constexpr by headers before
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
