// The bytes of what users name as input: a file, a pipe, a device, or "-" for standard input.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace longformer {

/// Reads once from the beginning to the end. Waiting for bytes, or for a program that writes into a
/// named pipe, asks Interruption.
class InputFile {
 public:
  /// Throws Error with the system's reason.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  /// How many bytes came, at least one; 0 at the end. Throws Error with the system's reason.
  std::size_t read(std::span<char> bytes);

 private:
  std::string path_;
  int descriptor_ = -1;
  bool is_regular_ = false;
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
