#include "formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>

#include "core/error.h"

namespace longformer::formats {

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor >= 0, "{}: expected a readable file, found: {}", path, std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(regular ? status.st_size : 0);
  void* memory = nullptr;
  if (size > 0) memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  require(regular, "{}: expected a regular file, found a folder or device", path);
  require(memory != MAP_FAILED, "{}: could not map {} bytes: {}", path, size,
          std::strerror(reason));
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<std::byte*>(memory), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

bool MappedFile::holds(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  return std::greater_equal<>()(place, data_) && std::less<>()(place, data_ + size_);
}

void MappedFile::release(const void* begin, std::size_t bytes) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (from + page - 1) / page * page;
  const std::uintptr_t last = (from + bytes) / page * page;
  const auto start = reinterpret_cast<std::uintptr_t>(data_);
  if (first >= last || first < start || last > start + size_) return;
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace longformer::formats
