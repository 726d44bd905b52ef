#include "resumed_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "hash.h"
#include "longformer/error.h"
#include "longformer/report.h"
#include "output.h"
#include "output_files.h"

namespace longformer::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Version of the files, and its name in the settings.
constexpr const char* kFormat = "version";
constexpr const char* kVersion = "1";

/// Groups take so many times longer than to commit them, which then costs 5 % at the most.
constexpr int kTimesOfCommit = 20;
constexpr std::chrono::seconds kLongestGroup(10);
/// Bytes of a group at the most, but for those of one unit of documents.
constexpr std::size_t kGroupBytes = std::size_t{16} << 20;

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

/// A new file has its name on the disk only when its folder is there.
void sync_folder(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  const int opened =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  ::fsync(opened);
  ::close(opened);
}

bool is_there(const std::string& file) {
  std::error_code error;
  return fs::exists(file, error);
}

bool has_bytes(const std::string& file) {
  std::error_code error;
  return fs::file_size(file, error) > 0 && !error;
}

/// Rows of an array by its header; none for what is no header of such an array.
std::optional<std::int64_t> rows_of_header(const std::string& header, std::int64_t columns) {
  constexpr std::string_view kShape = "'shape': (";
  const std::size_t place = header.find(kShape);
  if (place == std::string::npos) return std::nullopt;
  std::int64_t rows = 0;
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  for (std::size_t i = place + kShape.size(); i < header.size() && is_digit(header[i]); ++i) {
    rows = 10 * rows + (header[i] - '0');
  }
  if (header != npy_header(std::array{rows, columns})) return std::nullopt;
  return rows;
}

/// A document that is done: what its line says.
struct DoneDocument {
  Document document;
  std::int64_t rows = 1;
  bool has_error = false;
};

/// Throws Error that names the line.
DoneDocument document_of(const std::string& line, const std::string& place) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("file") || !object["file"].is_string()) {
    throw Error(
        fmt::format("{}: expected a JSON object of a document, found {}; remove the lines "
                    "from this one on, and they are made again",
                    place, in_quotes(line)));
  }
  Document document;
  document.file = object["file"].get<std::string>();
  const auto number = [&](const char* key, std::int64_t otherwise) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                               : otherwise;
  };
  document.line = number("line", 0);
  document.record = number("record", 0);
  document.id = json_member(line, "id");
  return {std::move(document), number("rows", 1), object.contains("error")};
}

/// "--pooling mean" or "no --pooling"; of what is no option "vectors of 384".
std::string shown(const std::string& name, const std::string& value) {
  std::string option = "--" + name;
  std::ranges::replace(option, '_', '-');
  if (value.empty() || value == "false") return "no " + option;
  return value == "true" ? option : fmt::format("{} {}", option, in_quotes(value));
}

std::string value_of(const Json& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found != settings.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

PlacedFile::PlacedFile(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail();
  struct stat status = {};
  if (fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) return;
  ::close(file_);
  throw WriteError(fmt::format("cannot go on with '{}': expected an ordinary file", path_));
}

PlacedFile::~PlacedFile() { ::close(file_); }

void PlacedFile::fail() const {
  throw WriteError(fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
}

bool PlacedFile::lock() const {
  return ::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

std::int64_t PlacedFile::size() const {
  struct stat status = {};
  if (fstat(file_, &status) != 0) fail();
  return status.st_size;
}

std::string PlacedFile::read(std::int64_t begin, std::size_t bytes) const {
  std::string text(bytes, '\0');
  const ssize_t count = ::pread(file_, text.data(), bytes, begin);
  if (count < 0) fail();
  text.resize(static_cast<std::size_t>(count));
  return text;
}

void PlacedFile::write(std::int64_t begin, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_, bytes.data(), bytes.size(), begin);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    begin += count;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void PlacedFile::cut(std::int64_t size) const {
  if (::ftruncate(file_, size) != 0) fail();
}

void PlacedFile::sync() const {
  // File systems that cannot tell have nothing to wait for.
  if (::fdatasync(file_) != 0 && errno != EINVAL && errno != EROFS) fail();
}

ResumedOutput::ResumedOutput(const std::string& output, std::int64_t columns,
                             const RunSettings& settings)
    : output_(output), columns_(columns) {
  const ResumedNames names = resumed_names(output);
  const std::string lines = columns > 0 ? names.lines : output;
  if (!is_there(names.settings)) {
    for (const std::string& file : {output, lines}) {
      if (!has_bytes(file)) continue;
      throw Error(
          fmt::format("'{}': expected a file that --resume made, with '{}' beside it, "
                      "found none: name another file with --output",
                      file, names.settings));
    }
  }
  RunSettings all = settings;
  all.emplace_back("format", columns > 0 ? "npy" : "jsonl");
  const bool is_begun = is_there(names.settings);
  if (is_begun) check(names.settings, all);
  if (columns > 0) array_.emplace(output);
  lines_.emplace(lines);
  if (!lines_->lock() || (array_ && !array_->lock())) {
    throw Error(
        fmt::format("'{}': another process is writing it: wait for its end, or name "
                    "another file with --output",
                    output));
  }
  if (!is_begun) make(names.settings, all);
  recover();
  if (array_) recover_array();
}

void ResumedOutput::check(const std::string& settings_file, const RunSettings& settings) const {
  std::ifstream file(settings_file);
  const Json made = Json::parse(file, nullptr, false);
  if (!made.is_object()) {
    throw Error(
        fmt::format("'{}': expected the JSON object that --resume wrote, found another "
                    "text: name another file with --output",
                    settings_file));
  }
  if (const std::string format = value_of(made, kFormat); format != kVersion) {
    throw Error(fmt::format("'{}': expected version {}, found {}: name another file with --output",
                            settings_file, kVersion, in_quotes(format)));
  }
  std::vector<std::string> has, wants;
  const auto value_now = [&](const std::string& name) {
    const auto found = std::ranges::find(settings, name, &RunSettings::value_type::first);
    return found == settings.end() ? std::string() : found->second;
  };
  for (const auto& [name, value] : settings) {
    // Folders may have been moved: weights tell models apart.
    if (name == "model" || value == value_of(made, name)) continue;
    if (name == "fingerprint") {
      has.push_back(fmt::format("the model {}", in_quotes(value_of(made, "model"))));
      wants.push_back(fmt::format("the other model {}", in_quotes(value_now("model"))));
    } else {
      has.push_back(shown(name, value_of(made, name)));
      wants.push_back(shown(name, value));
    }
  }
  if (has.empty()) return;
  throw Error(
      fmt::format("'{}' was made with {}, and this run has {}: ask for the same, or name "
                  "another file with --output",
                  output_, fmt::join(has, ", "), fmt::join(wants, ", ")));
}

void ResumedOutput::make(const std::string& settings_file, const RunSettings& settings) const {
  Json object = {{kFormat, kVersion}};
  for (const auto& [name, value] : settings) object[name] = value;
  const std::string temporary = temporary_name(settings_file);
  const PlacedFile file(temporary);
  file.cut(0);
  file.write(0, object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.sync();
  if (std::rename(temporary.c_str(), settings_file.c_str()) != 0) {
    throw WriteError(fmt::format("cannot write '{}': {}", settings_file, std::strerror(errno)));
  }
  sync_folder(settings_file);
}

ResumedOutput::Name ResumedOutput::name_of(const Document& document) {
  const std::string name = document.name();
  return {fnv1a(name), std::hash<std::string>()(name)};
}

void ResumedOutput::recover() {
  std::ifstream file(lines_->path(), std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const DoneDocument done =
        document_of(line, fmt::format("{}:{}", lines_->path(), documents_ + 1));
    met_.emplace(name_of(done.document), false);
    rows_ += done.rows;
    if (done.has_error) ++failed_before_;
    ++documents_;
    line_bytes_ += std::ssize(line) + 1;
  }
  if (lines_->size() > line_bytes_) lines_->cut(line_bytes_);
}

void ResumedOutput::recover_array() {
  const std::string empty = npy_header(std::array<std::int64_t, 2>{0, columns_});
  const auto header_bytes = std::ssize(empty);
  const std::string header = array_->read(0, empty.size());
  const std::int64_t row_bytes = columns_ * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t wanted = header_bytes + rows_ * row_bytes;
  const bool is_begun = std::ssize(header) == header_bytes;
  if (is_begun && !rows_of_header(header, columns_)) {
    throw Error(
        fmt::format("'{}': expected a NumPy array of rows of {} that --resume made, found "
                    "another file: name another one with --output",
                    output_, columns_));
  }
  if (rows_ > 0 && array_->size() < wanted) {
    throw Error(
        fmt::format("'{}': expected the {} rows of '{}' ({} bytes), found {} bytes: remove "
                    "its last lines, or name another file with --output",
                    output_, rows_, lines_->path(), wanted, array_->size()));
  }
  // The header never has more rows than the file.
  array_->write(0, npy_header(std::array{rows_, columns_}));
  array_->sync();
  if (array_->size() > wanted) array_->cut(wanted);
}

bool ResumedOutput::is_done(Document& document) {
  // A file that cannot be read is no document: it may be there the next time.
  if (document.line == 0 && !document.error.empty()) return false;
  const auto [place, is_new] = met_.try_emplace(name_of(document), true);
  if (is_new) return false;
  if (!place->second) return place->second = true;
  document.is_repeated = true;
  document.text.clear();
  document.error = !document.has_id() ? "expected a document once, found it again"
                                      : fmt::format("expected an id of its own, found {} again",
                                                    in_quotes(document.id));
  return false;
}

void ResumedOutput::add(std::string_view object, std::span<const float> rows) {
  group_lines_ += object;
  group_lines_ += '\n';
  group_rows_.insert(group_rows_.end(), rows.begin(), rows.end());
}

void ResumedOutput::flush() {
  const auto since = Clock::now() - committed_;
  const bool is_large = group_lines_.size() + bytes_of(group_rows_).size() >= kGroupBytes;
  const Clock::duration wait = std::min<Clock::duration>(kTimesOfCommit * cost_, kLongestGroup);
  if (is_large || since >= wait) commit();
}

void ResumedOutput::commit() {
  if (group_lines_.empty()) return;
  const auto begin = Clock::now();
  try {
    write_group();
  } catch (const WriteError& error) {
    // For who reads it now; the next process cuts it too.
    [[maybe_unused]] const int cut = ::truncate(lines_->path().c_str(), line_bytes_);
    throw WriteError(
        fmt::format("{}; {} before are whole, and the same command goes on behind them",
                    error.what(), counted(documents_, "document")));
  }
  line_bytes_ += std::ssize(group_lines_);
  documents_ += std::ranges::count(group_lines_, '\n');
  if (columns_ > 0) rows_ += std::ssize(group_rows_) / columns_;
  group_lines_.clear();
  group_rows_.clear();
  committed_ = Clock::now();
  cost_ = committed_ - begin;
}

void ResumedOutput::write_group() {
  if (array_ && !group_rows_.empty()) {
    const std::int64_t rows = rows_ + std::ssize(group_rows_) / columns_;
    const std::string header = npy_header(std::array{rows, columns_});
    const std::int64_t row_bytes = columns_ * static_cast<std::int64_t>(sizeof(float));
    array_->write(std::ssize(header) + rows_ * row_bytes, bytes_of(group_rows_));
    array_->sync();
    array_->write(0, header);
  }
  lines_->write(line_bytes_, group_lines_);
  lines_->sync();
}

void ResumedOutput::finish() {
  commit();
  if (array_) array_->sync();
}

}  // namespace longformer::cli
