#pragma once

namespace smartmine::app {

/// From now on Ctrl-C and SIGTERM raise a flag instead of ending the process, so that work stops at a clean place.
/// A second one ends it at once.
void catch_interrupts();

/// The signal that came, 0 if none did.
int interrupt_signal();

/// Throws Cancelled if a signal came.
void stop_if_interrupted();

}  // namespace smartmine::app
