#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "commands.h"
#include "config_file.h"
#include "console.h"
#include "interrupt.h"
#include "smartmine/core/error.h"
#include "spelling.h"
#include "torch_part.h"

namespace smartmine::app {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kSignalBase = 128;  // as shells count: 130 for Ctrl-C

std::string in_one_line(std::string text) {
  for (char& letter : text)
    if (letter == '\n') letter = ' ';
  return text;
}

/// The subcommand that was named, or the program.
const CLI::App& named_command(const CLI::App& program) {
  const std::vector<const CLI::App*> named = program.get_subcommands([](const CLI::App* each) { return each->parsed(); });
  return named.empty() ? program : *named.front();
}

std::string did_you_mean(const std::string& written, const std::vector<std::string>& known) {
  const std::string meant = nearest_word(written, known);
  return meant.empty() ? "" : fmt::format("; did you mean {}?", meant);
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

// The first argument nobody asked for, in words; empty: there is none.
std::string unknown_argument(const CLI::App& program) {
  const std::vector<std::string> left = program.remaining(true);
  const auto option = std::find_if(left.begin(), left.end(), [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  const CLI::App& command = named_command(program);
  // A misspelt command takes its options down with it.
  if (&command == &program && !left.empty() && left.front()[0] != '-')
    return fmt::format("'{}' is no subcommand{}", left.front(), did_you_mean(left.front(), command_names(program)));
  if (option != left.end()) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("unknown option {}{}", name, did_you_mean(name, option_names(command)));
  }
  return left.empty() ? "" : fmt::format("unexpected argument '{}'", left.front());
}

int run(int argc, char** argv) {
  hand_over(argc, argv);
  const TorchPart* const torch = torch_part();
  CLI::App program{"smartmine: hard triplets for embedding training, mined over the whole training set."};
  program.name("smartmine");
  program.set_version_flag("--version", [torch] {
    return "smartmine " SMARTMINE_VERSION "\n" + (torch == nullptr ? "no training: without LibTorch" : torch->devices());
  });
  program.footer(std::string("Examples:\n") +
                 (torch == nullptr ? ""
                                   : "  smartmine train\n"
                                     "  smartmine train --dataset folder --data-root photos/ --output run\n") +
                 "  smartmine knn --embeddings x.npy --neighbors 100 --output lists\n"
                 "  smartmine mine --embeddings x.npy --labels y.npy --output triplets.npy\n"
                 "  smartmine eval --embeddings x.npy --labels y.npy\n"
                 "  smartmine report runs/glyphs-1\n"
                 "  smartmine compare runs/glyphs-1 runs/glyphs-2\n"
                 "  smartmine mine --help");
  program.require_subcommand(0, 1);  // with (1, 1) a misspelt one would be called missing
  program.fallthrough();             // so that --config may follow the subcommand
  add_config_option(program);
  Work work;
  if (torch != nullptr) {
    torch->add_train(program, work);
    torch->add_embed(program, work);
  }
  add_knn(program, work);
  add_mine(program, work);
  add_eval(program, work);
  add_report(program, work);
  add_compare(program, work);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return program.exit(asked);
  } catch (const CLI::ParseError& error) {
    // A misspelt option is often a missing one too, and what was written says more.
    const bool incomplete = dynamic_cast<const CLI::ExtrasError*>(&error) || dynamic_cast<const CLI::RequiredError*>(&error);
    const std::string unknown = incomplete ? unknown_argument(program) : "";
    const CLI::App& command = named_command(program);
    const std::string what = in_one_line(unknown.empty() ? error.what() : unknown);
    throw UsageError(fmt::format("{}{} smartmine {}--help", what, what.ends_with('?') ? " See" : "; see",
                                 &command == &program ? "" : command.get_name() + " "));
  }
  if (!work) throw UsageError("a subcommand is required, such as knn, mine or eval; see smartmine --help");
  catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is then an error like a full disk, not the end of the process
  work();
  return 0;
}

}  // namespace
}  // namespace smartmine::app

int main(int argc, char** argv) {
  namespace app = smartmine::app;
  try {
    return app::run(argc, argv);
  } catch (const app::UsageError& error) {
    app::warn(error.what());
    return app::kUsage;
  } catch (const app::Ended& ended) {
    return ended.status;
  } catch (const app::Interrupted& error) {
    app::warn(error.what());
    return app::kSignalBase + (app::interrupt_signal() == 0 ? SIGINT : app::interrupt_signal());
  } catch (const smartmine::Cancelled&) {
    app::warn("stopped; nothing was written");
    return app::kSignalBase + (app::interrupt_signal() == 0 ? SIGINT : app::interrupt_signal());
  } catch (const std::bad_alloc&) {
    app::warn("not enough memory");
    return app::kFailure;
  } catch (const std::exception& error) {
    app::warn(app::in_one_line(error.what()));
    return app::kFailure;
  }
}
