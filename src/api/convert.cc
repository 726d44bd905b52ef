#include "longformer/convert.h"

#include <utility>

#include "models/convert/convert.h"

namespace longformer {

ConvertedFrom convert(const std::string& source_folder, const std::string& target_folder,
                      const ConvertOptions& options) {
  auto [model_type, max_tokens] = models::convert_folder(source_folder, target_folder,
                                                         {.max_positions = options.max_positions,
                                                          .windows = options.windows,
                                                          .format = options.format,
                                                          .dtype = options.dtype,
                                                          .overwrite = options.overwrite,
                                                          .note = options.note});
  return {.model_type = std::move(model_type), .max_tokens = max_tokens};
}

}  // namespace longformer
