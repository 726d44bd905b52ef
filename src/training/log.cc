#include "training/log.h"

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "formats/json.h"

namespace longformer::training {

Log::Log(const std::filesystem::path& output_dir,
         const std::vector<nlohmann::ordered_json>& history, std::int64_t resumed_step)
    : path_((output_dir / "log.jsonl").string()), events_((output_dir / "runs").string()) {
  std::string text;
  for (const auto& line : history) text += line.dump() + "\n";
  formats::write_file(path_, text);
  lines_.open(path_, std::ios::binary | std::ios::app);
  require(lines_.good(), "{}: could not open the file: {}", path_, std::strerror(errno));
  if (resumed_step > 0) events_.restart(resumed_step);
}

void Log::write(const nlohmann::ordered_json& line) {
  lines_ << line.dump() << "\n" << std::flush;
  require(lines_.good(), "{}: could not write the file: {}", path_, std::strerror(errno));
  std::vector<formats::EventFile::Scalar> scalars;
  for (const auto& [key, value] : line.items()) {
    if (!value.is_number() || key == "step") continue;
    const std::string tag = key.starts_with("eval_") ? "eval/" + key.substr(5) : "train/" + key;
    scalars.emplace_back(tag, value.get<double>());
  }
  events_.write(line.at("step").get<std::int64_t>(), scalars);
}

}  // namespace longformer::training
