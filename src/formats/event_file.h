// Event files that TensorBoard reads: TFRecords of Event messages.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace longformer::formats {

class EventFile {
 public:
  using Scalar = std::pair<std::string, double>;

  /// Creates a file in the folder, named by the time and the process. Throws Error.
  explicit EventFile(const std::string& folder);

  /// Says that the run goes on from this step: viewers drop what other files of the folder hold of
  /// later steps. Throws Error.
  void restart(std::int64_t step);
  /// Values at a step, by tag. They are in the file when this returns. Throws Error.
  void write(std::int64_t step, std::span<const Scalar> scalars);

 private:
  void event(std::int64_t step, std::string_view what);

  std::string path_;
  std::ofstream file_;
};

}  // namespace longformer::formats
