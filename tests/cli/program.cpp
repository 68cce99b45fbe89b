#include "program.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace smartmine::test {
namespace {

void redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  close(file);
}

// From now on fallocate says that the file system cannot.
void refuse_room() {
  std::array<sock_filter, 4> filter = {
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(126);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "smartmine-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::set<std::string> TemporaryFolder::names() const {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) all.insert(entry.path().filename().string());
  return all;
}

Process::Process(const std::vector<std::string>& command, const Surroundings& surroundings)
    : out_path_(surroundings.out.empty() ? folder_ / "out" : surroundings.out) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string err_path = folder_ / "err";
  id_ = fork();
  if (id_ < 0) throw std::runtime_error("cannot start a process");
  if (id_ == 0) {
    redirect(out_path_, STDOUT_FILENO);
    redirect(err_path, STDERR_FILENO);
    std::signal(SIGINT, SIG_DFL);  // a shell's background job would have it ignored
    for (const auto& [name, value] : surroundings.environment) setenv(name.c_str(), value.c_str(), 1);
    if (surroundings.most_bytes_per_file != 0) {
      const rlimit limit{surroundings.most_bytes_per_file, surroundings.most_bytes_per_file};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(126);
    }
    if (surroundings.no_room_apart) refuse_room();
    execv(arguments.front(), arguments.data());
    _exit(127);
  }
}

Process::~Process() {
  if (running()) {
    kill(id_, SIGKILL);
    waitpid(id_, &raw_status_, 0);
  }
}

bool Process::running() {
  if (id_ <= 0) return false;
  if (waitpid(id_, &raw_status_, WNOHANG) == 0) return true;
  id_ = -1;
  return false;
}

bool Process::wait_for_error_text(const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    const bool alive = running();
    if (read_text(folder_ / "err").find(text) != std::string::npos) return alive;
    if (!alive) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void Process::send(int signal) {
  if (id_ > 0) kill(id_, signal);
}

Outcome Process::wait() {
  if (id_ > 0) waitpid(id_, &raw_status_, 0);
  id_ = -1;
  Outcome outcome;
  outcome.status = WIFEXITED(raw_status_) ? WEXITSTATUS(raw_status_) : 1000 + WTERMSIG(raw_status_);
  if (std::filesystem::is_regular_file(out_path_)) outcome.out = read_text(out_path_);
  outcome.err = read_text(folder_ / "err");
  return outcome;
}

Outcome smartmine(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  std::vector<std::string> command = {SMARTMINE_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command, surroundings).wait();
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace smartmine::test
