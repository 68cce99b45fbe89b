#include "page_template.h"

#include <cstddef>

#ifdef SMARTMINE_PAGE_FILE
// The assembler takes the file in as it is; compilers are slow with arrays of a million numbers.
asm(R"(
  .pushsection .rodata
  .global smartmine_page_begin
  .global smartmine_page_end
smartmine_page_begin:
  .incbin ")" SMARTMINE_PAGE_FILE R"("
smartmine_page_end:
  .popsection
)");
extern "C" const char smartmine_page_begin[];  // NOLINT(cppcoreguidelines-avoid-c-arrays,readability-identifier-naming)
extern "C" const char smartmine_page_end[];    // NOLINT(cppcoreguidelines-avoid-c-arrays,readability-identifier-naming)
#endif

namespace smartmine::app {

std::string_view page_template() {
#ifdef SMARTMINE_PAGE_FILE
  return {smartmine_page_begin, static_cast<std::size_t>(smartmine_page_end - smartmine_page_begin)};
#else
  return {};
#endif
}

}  // namespace smartmine::app
