#include "measurement.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>

namespace smartmine::bench {
namespace {

using Json = nlohmann::ordered_json;

Json failure(const std::string& why) { return {{"failure", why}}; }

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return;  // the parent sees that something is missing
    if (count > 0) done += static_cast<std::size_t>(count);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

// What `work` returns in a child process, or {"failure": why}.
Json in_child(const std::function<Json()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) {
    close(ends[0]);
    Json result;
    try {
      result = work();
    } catch (const std::bad_alloc&) {
      result = failure("not enough memory");
    } catch (const std::exception& error) {
      result = failure(error.what());
    }
    write_all(ends[1], result.dump());
    _exit(0);  // libraries' clean-up is the parent's affair
  }
  close(ends[1]);
  const std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return failure(fmt::format("ended by signal {}{}", WTERMSIG(status), WTERMSIG(status) == 9 ? ", perhaps for want of memory" : ""));
  const Json result = Json::parse(text, nullptr, false);
  return result.is_discarded() ? failure(fmt::format("ended with status {} and no figures", WEXITSTATUS(status))) : result;
}

}  // namespace

Json to_json(const Measurement& measurement) {
  Json json = {{"method", measurement.method}};
  if (measurement.failed()) {
    json["failure"] = measurement.failure;
    return json;
  }
  json["settings"] = measurement.settings;
  json["seconds"] = measurement.seconds;
  json["processor_seconds"] = measurement.processor_seconds;
  json["recall"] = measurement.recall;
  json["peak_memory_bytes"] = measurement.peak_memory_bytes;
  for (const auto& [name, value] : measurement.more) json[name] = value;
  return json;
}

Measurement measure_in_child(const std::string& method, const std::function<Measurement()>& work) {
  const Json json = in_child([&]() -> Json {
    const Measurement measured = work();
    return {{"settings", measured.settings}, {"seconds", measured.seconds},        {"processor", measured.processor_seconds},
            {"recall", measured.recall},     {"peak", measured.peak_memory_bytes}, {"more", measured.more}};
  });
  Measurement measurement;
  measurement.method = method;
  if (json.contains("failure")) {
    measurement.failure = json.at("failure");
    return measurement;
  }
  measurement.settings = json.at("settings");
  measurement.seconds = json.at("seconds");
  measurement.processor_seconds = json.at("processor");
  measurement.recall = json.at("recall");
  measurement.peak_memory_bytes = json.at("peak");
  measurement.more = json.at("more").get<std::map<std::string, double>>();
  return measurement;
}

void do_in_child(const std::function<void()>& work) {
  const Json json = in_child([&]() -> Json {
    work();
    return Json::object();
  });
  if (json.contains("failure")) throw std::runtime_error(json.at("failure").get<std::string>());
}

}  // namespace smartmine::bench
