// Another program that reads what strangers have written: in a process of its own, with limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::documents {

struct ProgramLimits {
  /// Address space, computing time and time by the clock.
  std::size_t memory = std::size_t{2} << 30;
  std::chrono::seconds computing{120};
  std::chrono::seconds waiting{240};
  /// Bytes of its output.
  std::size_t output = std::size_t{256} << 20;
};

struct ProgramResult {
  /// The exit status; 128 and the number of the signal that ended it.
  int status = 0;
  /// A limit has ended it, in words; empty without.
  std::string limit = {};
  std::string output = {};
  /// The beginning of what it wrote on stderr.
  std::string errors = {};
};

/// The path of a program that stands in a folder of PATH; empty where there is none.
std::string program_named(const std::string& name);

/// Runs a program that has the bytes as its standard input, which it may read in any order, and no
/// other open files. It can write no file. Throws Error where the system starts no process, and
/// what an Interruption throws, which ends the program too.
ProgramResult run_program(const std::string& path, const std::vector<std::string>& arguments,
                          std::string_view input, const ProgramLimits& limits);

}  // namespace longformer::documents
