// Several NumPy arrays in one file, which numpy.load opens: a zip archive whose members are stored
// as they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "output.h"

namespace longformer::cli {

/// Writes float32 arrays one after the other; nothing is kept and nothing is rewound, so that the
/// output may be a pipe.
class NpzWriter {
 public:
  explicit NpzWriter(Output& output) : output_(output) {}

  /// Begins an array of this shape; its values follow in row-major order.
  void begin(const std::string& name, std::span<const std::int64_t> shape);
  void write(std::span<const float> values);
  /// Ends the array. Throws Error when more or fewer values came than the shape has, or when the
  /// archive passes the 4 GB that this form of zip can count.
  void end();
  /// Writes the directory that closes the archive.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint32_t checksum = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
  };
  void put(std::string_view bytes);
  /// Bytes of the member: they count for its size and checksum.
  void put_content(std::string_view bytes);

  Output& output_;
  std::vector<Member> members_;
  std::uint64_t position_ = 0;
  std::uint64_t expected_ = 0;
};

}  // namespace longformer::cli
