#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "environment.h"
#include "smartmine/core/error.h"
#include "torch_part.h"

namespace smartmine::app {

const TorchPart* torch_part() { return nullptr; }

#ifndef SMARTMINE_TORCH_PROGRAM
void hand_over(int /*argc*/, char** /*argv*/) {}  // there is none
#else
namespace {

// Only what is known to be the same in both programs is done by this one: a misspelt command, a list of all commands or a file of settings,
// which may hold those of all, go to the complete one.
bool is_the_same_without_torch(std::span<char* const> words) {
  const auto has = [&](std::string_view option) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
    });
  };
  if (words.empty() || has("--config")) return false;
  const std::string_view command = words.front();
  if (command == "eval") return has("--embeddings") && !has("--run") && !has("--device") && !has("--help") && !has("-h");
  // Ranks talk to each other through LibTorch.
  if (command == "knn") return !has("--ranks") && std::getenv("RANK") == nullptr && std::getenv("WORLD_SIZE") == nullptr;
  return command == "mine" || command == "report" || command == "compare";
}

}  // namespace

void hand_over(int argc, char** argv) {
  if (argc < 1 || is_the_same_without_torch(std::span(argv, static_cast<std::size_t>(argc)).subspan(1))) return;
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  if (unknown)
    throw IoError("/proc/self/exe: cannot be read: " + unknown.message() + "; smartmine-torch is looked for beside this program");
  // Where programs are built, then where they are installed.
  for (const std::filesystem::path& place : {folder / "smartmine-torch", folder / SMARTMINE_TORCH_PROGRAM}) {
    std::error_code ignored;
    if (!std::filesystem::exists(place, ignored)) continue;
    prepare_environment();
    execv(place.c_str(), argv);
    throw IoError(place.string() + ": cannot be run: " + std::generic_category().message(errno));
  }
  if (argc == 2 && std::string_view(argv[1]) == "--version") return;  // that much can be said without
  throw IoError((folder / SMARTMINE_TORCH_PROGRAM).lexically_normal().string() +
                ": not found; smartmine train, embed and eval --run need it");
}
#endif

}  // namespace smartmine::app
