#pragma once

#include <stdexcept>
#include <string>

namespace smartmine {

/// Base of everything the library throws on purpose; `what()` is one line fit to show to a person.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An option or argument outside its allowed range; the message names the field, its value and the range.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// A file that cannot be read or written; the message names the path, the place in it and a hint.
class IoError : public Error {
 public:
  using Error::Error;
};

/// A progress callback asked for the work to stop.
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled") {}
};

/// A promise the library makes to itself was broken: a defect in smartmine, checked in release builds too.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Throws InternalError with `what` unless `holds`.
inline void require(bool holds, const char* what) {
  if (!holds) throw InternalError(std::string("internal error: ") + what);
}

}  // namespace smartmine
