#include "doctor/accepted.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace addnorm::doctor {
namespace {

TEST(Accepted, NamesARuleOrARuleWithinAPlace) {
  const Finding finding{.rule = "residual-missing", .where = "layer 2, attention"};
  const Finding later{.rule = "residual-missing", .where = "layer 20, attention"};
  const auto accepts = [](const std::string& name, const Finding& f) {
    return is_accepted(f, std::vector<std::string>{"norm-kind", name});
  };
  for (const char* name :
       {"residual-missing", "residual-missing@layer 2", "residual-missing@layer 2, attention"}) {
    EXPECT_TRUE(accepts(name, finding)) << name;
  }
  for (const char* name : {"residual", "residual-missing@layer", "residual-missing@layer 2, feed",
                           "residual-missing@layer 20", "norm-kind@layer 2", "", "@layer 2"}) {
    EXPECT_FALSE(accepts(name, finding)) << name;
  }
  EXPECT_FALSE(accepts("residual-missing@layer 2", later));
  const Finding named{.rule = "residual-missing",
                      .site = Site{6, SublayerKind::kAttention, Point::kSum},
                      .where = "decoder.block.1.cross"};
  for (const char* place :
       {"layer 6", "layer 6, attention", "decoder.block.1", "decoder.block.1.cross"}) {
    EXPECT_TRUE(accepts(std::string("residual-missing@") + place, named)) << place;
  }
  EXPECT_FALSE(accepts("residual-missing@decoder.block.11", named));
  EXPECT_FALSE(accepts("residual-missing@layer 1", named));
  EXPECT_FALSE(is_accepted(finding, {}));
}

}  // namespace
}  // namespace addnorm::doctor
