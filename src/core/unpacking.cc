#include "core/unpacking.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace longformer {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kInputPiece = std::size_t{1} << 16;
/// More than this from an archive that is so many times smaller is no text that anyone keeps.
constexpr std::int64_t kSurelyFine = std::int64_t{256} << 20;
constexpr std::int64_t kMostRatio = 500;
/// Memory that an archive may ask for: `xz -9` wants 65 MB, `zstd --ultra -22` 128 MB.
constexpr std::uint64_t kMostMemory = std::uint64_t{256} << 20;

void advance(std::string_view& in, std::size_t left_in, std::span<char>& out,
             std::size_t left_out) {
  in.remove_prefix(in.size() - left_in);
  out = out.last(left_out);
}

class GzipUnpacker final : public Unpacker {
 public:
  /// 15 bits of window, and 16: the header of gzip. Less than 0: no header.
  explicit GzipUnpacker(int window = 15 + 16) {
    require(inflateInit2(&stream_, window) == Z_OK, "expected memory for zlib, found too little");
  }
  ~GzipUnpacker() override { inflateEnd(&stream_); }

  std::string_view name() const override { return "gzip"; }
  void restart() override { inflateReset(&stream_); }

  bool step(std::string_view& in, std::span<char>& out, bool) override {
    const std::size_t taken = std::min(in.size(), kInputPiece),
                      room = std::min(out.size(), kMostRoom);
    // zlib does not write into its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(taken);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    advance(in, in.size() - taken + stream_.avail_in, out, out.size() - room + stream_.avail_out);
    const bool goes_on = status == Z_OK || status == Z_BUF_ERROR || status == Z_STREAM_END;
    require(goes_on, "damage: {}", stream_.msg == nullptr ? "no such data" : stream_.msg);
    return status == Z_STREAM_END;
  }

 private:
  static constexpr std::size_t kMostRoom = std::size_t{1} << 30;
  z_stream stream_ = {};
};

class XzUnpacker final : public Unpacker {
 public:
  XzUnpacker() {
    const lzma_ret status = lzma_stream_decoder(&stream_, kMostMemory, LZMA_CONCATENATED);
    require(status == LZMA_OK, "expected memory for liblzma, found too little");
  }
  ~XzUnpacker() override { lzma_end(&stream_); }

  std::string_view name() const override { return "xz"; }
  /// The library goes on from one archive to the next by itself.
  void restart() override {}

  bool step(std::string_view& in, std::span<char>& out, bool is_last) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret status = lzma_code(&stream_, is_last ? LZMA_FINISH : LZMA_RUN);
    advance(in, stream_.avail_in, out, stream_.avail_out);
    require(status != LZMA_MEMLIMIT_ERROR, "one that needs more than {} MB of memory",
            kMostMemory >> 20);
    const bool goes_on = status == LZMA_OK || status == LZMA_BUF_ERROR || status == LZMA_STREAM_END;
    require(goes_on, "damage: {}",
            status == LZMA_OPTIONS_ERROR  ? "options that liblzma does not know"
            : status == LZMA_FORMAT_ERROR ? "other bytes behind the archive"
                                          : "data that do not fit their checksum");
    return status == LZMA_STREAM_END;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdUnpacker final : public Unpacker {
 public:
  ZstdUnpacker() { require(stream_ != nullptr, "expected memory for libzstd, found too little"); }
  ~ZstdUnpacker() override { ZSTD_freeDStream(stream_); }

  std::string_view name() const override { return "zstd"; }
  /// The library goes on from one frame to the next by itself.
  void restart() override {}

  bool step(std::string_view& in, std::span<char>& out, bool) override {
    ZSTD_inBuffer from = {.src = in.data(), .size = in.size(), .pos = 0};
    ZSTD_outBuffer to = {.dst = out.data(), .size = out.size(), .pos = 0};
    const std::size_t status = ZSTD_decompressStream(stream_, &to, &from);
    advance(in, in.size() - from.pos, out, out.size() - to.pos);
    require(ZSTD_isError(status) == 0, "damage: {}", ZSTD_getErrorName(status));
    return status == 0;
  }

 private:
  ZSTD_DStream* stream_ = ZSTD_createDStream();
};

struct Magic {
  std::string_view bytes;
  std::unique_ptr<Unpacker> (*make)();
};

template <typename Kind>
std::unique_ptr<Unpacker> made() {
  return std::make_unique<Kind>();
}

/// `pzstd` begins with a frame that is skipped.
constexpr std::array<Magic, 4> kMagics = {{{"\x1f\x8b"sv, made<GzipUnpacker>},
                                           {"\xfd"
                                            "7zXZ\0"sv,
                                            made<XzUnpacker>},
                                           {"\x28\xb5\x2f\xfd"sv, made<ZstdUnpacker>},
                                           {"\x50\x2a\x4d\x18"sv, made<ZstdUnpacker>}}};

bool may_become_archive(std::string_view bytes) {
  return std::any_of(kMagics.begin(), kMagics.end(), [&](const Magic& magic) {
    return bytes.size() < magic.bytes.size() && magic.bytes.starts_with(bytes);
  });
}

}  // namespace

std::string inflated(std::string_view packed, std::size_t size) {
  constexpr std::size_t kFirst = std::size_t{1} << 16;
  GzipUnpacker unpacker(-15);
  std::string bytes;
  std::size_t made = 0;
  bool has_ended = false;
  while (!has_ended) {
    // One byte more than there should be shows that there are more.
    if (made == bytes.size()) bytes.resize(std::min(std::max(kFirst, 2 * made), size + 1));
    std::span<char> room = std::span(bytes).subspan(made);
    const std::size_t before = packed.size() + room.size();
    has_ended = unpacker.step(packed, room, true);
    made = bytes.size() - room.size();
    require(made <= size, "more than the {} bytes that it should have", size);
    require(has_ended || packed.size() + room.size() < before, "one that is cut off");
  }
  require(made == size, "{} of the {} bytes that it should have", made, size);
  bytes.resize(size);
  return bytes;
}

UnpackedInput::UnpackedInput(std::string path, ByteSource source)
    : path_(std::move(path)), source_(std::move(source)) {}

double UnpackedInput::ratio() const {
  if (!unpacker_ || unpacked_ == 0) return 1;
  return static_cast<double>(packed_) / static_cast<double>(unpacked_);
}

void UnpackedInput::start() {
  is_started_ = true;
  buffer_.resize(kInputPiece);
  refill();
  std::size_t size = input_.size();
  // A pipe may hand out the first bytes one by one.
  while (!has_ended_ && may_become_archive(input_)) {
    const std::size_t more = source_(std::span(buffer_).subspan(size));
    has_ended_ = more == 0;
    packed_ += static_cast<std::int64_t>(more);
    size += more;
    input_ = {buffer_.data(), size};
  }
  for (const Magic& magic : kMagics) {
    if (!input_.starts_with(magic.bytes)) continue;
    unpacker_ = magic.make();
    return;
  }
}

void UnpackedInput::refill() {
  const std::size_t size = source_(buffer_);
  has_ended_ = size == 0;
  packed_ += static_cast<std::int64_t>(size);
  input_ = {buffer_.data(), size};
}

std::size_t UnpackedInput::hand_on(std::span<char> bytes) {
  if (input_.empty()) return has_ended_ ? 0 : source_(bytes);
  const std::size_t count = std::min(bytes.size(), input_.size());
  std::memcpy(bytes.data(), input_.data(), count);
  input_.remove_prefix(count);
  return count;
}

std::size_t UnpackedInput::unpack(std::span<char> bytes) {
  while (true) {
    if (input_.empty() && !has_ended_) refill();
    if (is_between_) {
      // Tapes and some programs fill up with zeros.
      input_.remove_prefix(std::min(input_.find_first_not_of('\0'), input_.size()));
      if (input_.empty() && has_ended_) return 0;
      if (input_.empty()) continue;
      unpacker_->restart();
      is_between_ = false;
    }
    std::span<char> room = bytes;
    const bool is_last = has_ended_;
    is_between_ = unpacker_->step(input_, room, is_last);
    const std::size_t made = bytes.size() - room.size();
    unpacked_ += static_cast<std::int64_t>(made);
    require(unpacked_ < kSurelyFine || unpacked_ / kMostRatio < packed_,
            "one that unpacks to more than {} times its size", kMostRatio);
    if (made > 0) return made;
    require(is_between_ || !is_last || !input_.empty(), "one that is cut off");
  }
}

std::size_t UnpackedInput::read(std::span<char> bytes) {
  if (has_failed_) return 0;
  if (!is_started_) start();
  if (!unpacker_) return hand_on(bytes);
  std::string reason;
  try {
    return unpack(bytes);
  } catch (const Error& error) {
    has_failed_ = true;
    // The source's own errors have a subject.
    if (!error.parts().subject.empty()) throw;
    reason = error.reason();
  }
  fail(FileName{path_}, "expected a whole {} archive, found {}", unpacker_->name(), reason);
}

}  // namespace longformer
