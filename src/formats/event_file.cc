#include "formats/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "formats/crc32.h"

namespace longformer::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

/// Wire types of protocol buffers.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename Number>
void append_raw(std::string& text, Number number) {
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  text.append(bytes.data(), bytes.size());
}

void append_varint(std::string& text, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text.push_back(static_cast<char>((value & 0x7f) | 0x80));
  text.push_back(static_cast<char>(value));
}

void append_key(std::string& text, unsigned field, Wire wire) {
  append_varint(text, (field << 3) | static_cast<unsigned>(wire));
}

std::string bytes_field(unsigned field, std::string_view contents) {
  std::string text;
  append_key(text, field, Wire::bytes);
  append_varint(text, contents.size());
  return text.append(contents);
}

std::string varint_field(unsigned field, std::uint64_t value) {
  std::string text;
  append_key(text, field, Wire::varint);
  append_varint(text, value);
  return text;
}

// Fields of the messages Event, SessionLog, Summary and Summary.Value of TensorFlow.
constexpr unsigned kEventWallTime = 1;
constexpr unsigned kEventStep = 2;
constexpr unsigned kEventFileVersion = 3;
constexpr unsigned kEventSummary = 5;
constexpr unsigned kEventSessionLog = 7;
constexpr unsigned kSessionLogStatus = 1;
constexpr std::uint64_t kSessionStart = 1;
constexpr unsigned kSummaryValue = 1;
constexpr unsigned kValueTag = 1;
constexpr unsigned kValueSimple = 2;

std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t sum = crc32c(std::as_bytes(std::span(bytes)));
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

EventFile::EventFile(const std::string& folder)
    : path_(fmt::format("{}/events.out.tfevents.{:010}.{}.longformer", folder,
                        static_cast<std::int64_t>(seconds_now()), ::getpid())) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  file_.open(path_, std::ios::binary | std::ios::app);
  require(file_.good(), "{}: could not create the file: {}", path_, std::strerror(errno));
  event(0, bytes_field(kEventFileVersion, "brain.Event:2"));
}

void EventFile::restart(std::int64_t step) {
  event(step, bytes_field(kEventSessionLog, varint_field(kSessionLogStatus, kSessionStart)));
}

void EventFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string one = bytes_field(kValueTag, tag);
    append_key(one, kValueSimple, Wire::fixed32);
    append_raw(one, static_cast<float>(value));
    summary += bytes_field(kSummaryValue, one);
  }
  event(step, bytes_field(kEventSummary, summary));
}

void EventFile::event(std::int64_t step, std::string_view what) {
  std::string message;
  append_key(message, kEventWallTime, Wire::fixed64);
  append_raw(message, seconds_now());
  message += varint_field(kEventStep, static_cast<std::uint64_t>(step));
  message += what;

  std::string length;
  append_raw(length, static_cast<std::uint64_t>(message.size()));
  std::string record = length;
  append_raw(record, masked_checksum(length));
  record += message;
  append_raw(record, masked_checksum(message));
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  require(file_.good(), "{}: could not write the file: {}", path_, std::strerror(errno));
}

}  // namespace longformer::formats
