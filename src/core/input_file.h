// The bytes of what users name as input: a file, a pipe, a device, or "-" for standard input. What
// is in an archive of gzip, xz or zstd is unpacked.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/unpacking.h"

namespace longformer {

/// Reads once from the beginning to the end. Waiting for bytes, or for a program that writes into a
/// named pipe, asks Interruption.
class InputFile {
 public:
  /// Throws Error with the system's reason.
  explicit InputFile(const std::string& path);

  /// How many bytes came, at least one; 0 at the end. Throws Error with the system's reason, and
  /// for archives that are damaged.
  std::size_t read(std::span<char> bytes) { return input_.read(bytes); }
  /// UnpackedInput::ratio.
  double ratio() const { return input_.ratio(); }

 private:
  UnpackedInput input_;
};

/// Whether a name stands for something that can be read once: a pipe, a device, standard input.
bool is_read_once(const std::string& path);

/// All bytes of an input.
std::string read_input(const std::string& path);

/// The bytes of inputs that can be read once, for those who read them again.
class KeptInputs {
 public:
  /// Reads the input when it is asked for the first time. Throws as InputFile.
  std::shared_ptr<const std::string> bytes_of(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const std::string>> inputs_;
};

}  // namespace longformer
