#include "models/convert/convert.h"

#include "api/convert_options.h"
#include "engine/frame/head_plan.h"
#include "longformer/checkpoint.h"
#include "longformer/options.h"

namespace longformer {

ConvertedFrom convert(const std::string& source_folder, const std::string& target_folder,
                      const ConvertOptions& options) {
  refuse_other_options(options);
  return models::convert_folder(source_folder, target_folder, options, engine::plan_head);
}

}  // namespace longformer
