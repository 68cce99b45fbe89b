#pragma once

#include <string_view>

namespace smartmine::app {

/// The report page without data that was built into the program; empty if it was built without.
std::string_view page_template();

}  // namespace smartmine::app
