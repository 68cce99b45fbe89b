#include "interrupt.h"

#include <csignal>

#include "smartmine/core/error.h"

namespace smartmine::app {
namespace {

volatile std::sig_atomic_t received = 0;

extern "C" void remember_signal(int signal) { received = signal; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    // A signal that the parent ignores (nohup, a shell's background job) stays ignored.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

int interrupt_signal() { return received; }

void stop_if_interrupted() {
  if (received != 0) throw Cancelled();
}

}  // namespace smartmine::app
