#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smartmine::app {

/// How many letters must be put in, left out, changed, or swapped with their neighbour to make one word of the other.
std::size_t edits_between(std::string_view a, std::string_view b);

/// The word that was probably meant, the first of equals; empty if none is near.
std::string nearest_word(std::string_view written, const std::vector<std::string>& known);

}  // namespace smartmine::app
