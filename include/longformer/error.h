// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace longformer {

/// Thrown for every input that cannot be used. The message is one line that says what was expected
/// and what was found, and names the file, tensor or option that it concerns.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace longformer
