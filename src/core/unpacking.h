// Archives of gzip, xz and zstd, unpacked while they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer {

/// Hands out the next bytes of an input, at least one; 0 at the end.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// An archive of one file, unpacked step by step.
class Unpacker {
 public:
  virtual ~Unpacker() = default;
  Unpacker() = default;
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// "gzip", "xz" or "zstd".
  virtual std::string_view name() const = 0;
  /// Begins with the next member: archives may stand behind each other.
  virtual void restart() = 0;
  /// Unpacks from the front of `in` to the front of `out`, and takes off both what was used.
  /// `is_last`: nothing comes behind `in`. Whether the member has ended. Throws Error with the
  /// reason for what is no such archive.
  virtual bool step(std::string_view& in, std::span<char>& out, bool is_last) = 0;
};

/// The bytes that a deflated part of a zip archive unpacks to, which must be exactly `size`. Memory
/// is taken as bytes come, so a wrong size costs none. Throws Error with the reason, which begins
/// with what was found.
std::string inflated(std::string_view packed, std::size_t size);

/// Unpacks an input that begins as an archive of gzip, xz or zstd does, and hands on all others.
class UnpackedInput {
 public:
  /// Errors begin with the path.
  UnpackedInput(std::string path, ByteSource source);

  /// How many bytes came, at least one; 0 at the end. Throws Error for an archive that is damaged,
  /// cut off, or unpacks to more than 500 times its size (from 256 MB on), and what the source
  /// throws. Nothing comes behind an error.
  std::size_t read(std::span<char> bytes);

  /// Bytes of the input for each byte that came so far, about; 1 where nothing is unpacked.
  double ratio() const;

 private:
  void start();
  void refill();
  std::size_t unpack(std::span<char> bytes);
  std::size_t hand_on(std::span<char> bytes);

  std::string path_;
  ByteSource source_;
  std::unique_ptr<Unpacker> unpacker_;
  std::vector<char> buffer_;
  /// The part of the buffer that was not used yet.
  std::string_view input_;
  bool is_started_ = false, has_ended_ = false, has_failed_ = false;
  /// A member has ended, and the next one has not begun.
  bool is_between_ = false;
  std::int64_t packed_ = 0, unpacked_ = 0;
};

}  // namespace longformer
