#include "output.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "control_characters.h"
#include "flags.h"
#include "output_files.h"

namespace longformer::cli {

namespace {

/// Header bytes of an array file, as numpy writes them for small shapes; a multiple of 64.
constexpr std::size_t kNpyHeaderSize = 128;

}  // namespace

bool is_standard_output(const std::string& file) { return file == "-"; }

Output::Output() : stream_(stdout), is_terminal_(isatty(STDOUT_FILENO) == 1) {}

Output::Output(const std::string& file)
    : stream_(nullptr), is_terminal_(false), file_(is_standard_output(file) ? "" : file) {
  if (is_standard_output(file)) {
    stream_ = stdout;
    is_terminal_ = isatty(STDOUT_FILENO) == 1;
    return;
  }
  struct stat status = {};
  // Devices, pipes and links (/dev/stdout) are written in place: a rename would replace them.
  const bool special = lstat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  holds_list_ = !special && suffix_of(file) == ".json";
  temporary_ = special ? file : temporary_name(file);
  stream_ = std::fopen(temporary_.c_str(), "wb");
  if (stream_ == nullptr) {
    throw WriteError(fmt::format("cannot write '{}': {}", file, std::strerror(errno)));
  }
  is_terminal_ = isatty(fileno(stream_)) == 1;
}

Output::~Output() {
  if (stream_ == nullptr || stream_ == stdout) return;
  std::fclose(stream_);
  if (temporary_ != file_) unlink(temporary_.c_str());
}

void Output::fail_write() const {
  if (errno == EPIPE) throw BrokenPipe();
  throw WriteError(fmt::format("cannot write {}: {}",
                               file_.empty() ? "to standard output" : "'" + file_ + "'",
                               std::strerror(errno)));
}

void Output::write(std::string_view text) {
  write_marked(is_terminal_ ? with_visible_controls(text) : text);
}

void Output::write_marked(std::string_view text) {
  is_empty_ = is_empty_ && text.empty();
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size()) fail_write();
}

void Output::write_object(std::string_view object) {
  if (holds_list_) write(objects_ == 0 ? "[\n" : ",\n");
  write(object);
  if (!holds_list_) write("\n");
  ++objects_;
}

void Output::flush() {
  if (std::fflush(stream_) != 0) fail_write();
}

void Output::rewind() {
  if (std::fseek(stream_, 0, SEEK_SET) != 0) fail_write();
}

void Output::finish() {
  if (holds_list_ && objects_ > 0) {
    write("\n]\n");
  } else if (holds_list_ && is_empty_) {
    write("[]\n");
  }
  flush();
  if (stream_ == stdout) {
    // Some file systems report a full disk only on close; the descriptor itself stays open.
    const int copy = dup(STDOUT_FILENO);
    if (copy >= 0 && close(copy) != 0) fail_write();
    return;
  }
  std::FILE* stream = stream_;
  stream_ = nullptr;
  if (std::fclose(stream) != 0) {
    const int reason = errno;
    if (temporary_ != file_) unlink(temporary_.c_str());
    errno = reason;
    fail_write();
  }
  if (temporary_ != file_ && std::rename(temporary_.c_str(), file_.c_str()) != 0) fail_write();
}

std::string npy_header(std::span<const std::int64_t> shape) {
  std::string text("\x93NUMPY\x01\x00", 8);
  const std::size_t length = kNpyHeaderSize - text.size() - 2;
  text += static_cast<char>(length % 256);
  text += static_cast<char>(length / 256);
  text += fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                      fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  text.resize(kNpyHeaderSize - 1, ' ');
  return text + '\n';
}

NpyWriter::NpyWriter(Output& output, std::int64_t columns) : output_(output), columns_(columns) {
  if (output_.can_rewind()) output_.write(header());
}

std::string NpyWriter::header() const { return npy_header(std::array{rows_, columns_}); }

void NpyWriter::write_rows(std::span<const float> values) {
  rows_ += static_cast<std::int64_t>(values.size()) / columns_;
  if (output_.can_rewind()) {
    output_.write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  } else {
    kept_.insert(kept_.end(), values.begin(), values.end());
  }
}

void NpyWriter::finish() {
  if (output_.can_rewind()) output_.rewind();
  output_.write(header());
  if (!output_.can_rewind()) {
    output_.write({reinterpret_cast<const char*>(kept_.data()), kept_.size() * sizeof(float)});
  }
}

std::string on_one_line(std::string_view text) {
  std::string line(text);
  for (char& character : line) {
    if (static_cast<unsigned char>(character) < ' ' || character == '\x7f') character = ' ';
  }
  return line;
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

std::string bound_text(double fraction, int digits) {
  return fraction > 1 ? "≥ 1" : fmt::format("{:.{}f}", fraction, digits);
}

std::string values_of_layers(std::span<const std::int64_t> values) {
  const bool same = std::ranges::count(values, values.front()) == std::ssize(values);
  return same ? std::to_string(values.front()) : fmt::format("{}", fmt::join(values, ", "));
}

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  if (number == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", grouped(number), one)
                      : fmt::format("{} {}", grouped(number), many);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  const bool is_long = text.size() > kMost;
  std::size_t end = std::min(text.size(), kMost);
  while (is_long && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return fmt::format("'{}{}'", on_one_line(text.substr(0, end)), is_long ? "…" : "");
}

}  // namespace longformer::cli
