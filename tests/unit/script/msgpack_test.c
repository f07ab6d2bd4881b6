#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("return cmsgpack.pack(1)", "$1\r\n\001\r\n"),
    SCRIPT_CASE("return cmsgpack.pack()",
                "-ERR user_script:1: bad argument #0 to 'pack' (MessagePack pack needs input.) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return cmsgpack.pack(-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649,-2^53,-2^63)",
                "$49\r\n\377\340\320\337\320\200\321\377\177\321\200\000\322\377\377\177\377\322\200\000\000\000\323\377\377"
                "\377\377\177\377\377\377\323\377\340\000\000\000\000\000\000\323\200\000\000\000\000\000\000\000\r\n"),
    SCRIPT_CASE("return cmsgpack.pack(1.5,0.1,1e300,1/0,-1/0,-math.abs(0/0),-0)",
                "$43\r\n\312?\300\000\000\313?\271\231\231\231\231\231\232\313~7\344<\210\000u\234\312\177\200\000\000\312"
                "\377\200\000\000\313\377\370\000\000\000\000\000\000\000\r\n"),
    SCRIPT_CASE("return cmsgpack.pack('',string.rep('x',31),string.rep('x',32))",
                "$67\r\n\240\277xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\331 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n"),
    SCRIPT_CASE("return cmsgpack.pack(string.rep('x',255),string.rep('x',256))",
                "$516\r\n\331\377"
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                "\332\001\000"
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                "\r\n"),
    SCRIPT_CASE("return cmsgpack.pack(nil,true,false)", "$3\r\n\300\303\302\r\n"),
    SCRIPT_CASE("return cmsgpack.pack({})", "$1\r\n\220\r\n"),
    SCRIPT_CASE("return cmsgpack.pack({1,2,3},{a=1},{1,2,nil,4})",
                "$15\r\n\223\001\002\003\201\241a\001\203\001\001\002\002\004\004\r\n"),
    SCRIPT_CASE("return cmsgpack.pack({[1]=1,[3]=3})", "$5\r\n\202\001\001\003\003\r\n"),
    SCRIPT_CASE("return cmsgpack.pack({[1.5]=1})", "$7\r\n\201\312?\300\000\000\001\r\n"),
    SCRIPT_CASE("return cmsgpack.pack({[-1]=1})", "$3\r\n\201\377\001\r\n"),
    SCRIPT_CASE("return cmsgpack.pack({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16})",
                "$19\r\n\334\000\020\001\002\003\004\005\006\007\010\t\n\013\014\r\016\017\020\r\n"),
    SCRIPT_CASE("return cmsgpack.pack(function() end)", "$1\r\n\300\r\n"),
    SCRIPT_CASE("local t={1} for i=1,20 do t={t} end return cmsgpack.pack(t)",
                "$17\r\n\221\221\221\221\221\221\221\221\221\221\221\221\221\221\221\221\300\r\n"),
    SCRIPT_CASE("local t={} t.x=t return cmsgpack.pack(t)",
                "$49\r\n\201\241x\201\241x\201\241x\201\241x\201\241x\201\241x\201\241x\201\241x\201\241x\201\241x\201\241x"
                "\201\241x\201\241x\201\241x\201\241x\201\241x\300\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(cmsgpack.pack(1,'a',true,nil,{1,2}))}", "*3\r\n:1\r\n$1\r\na\r\n:1\r\n"),
    SCRIPT_CASE("return tostring(cmsgpack.unpack(cmsgpack.pack(0.1)))", "$3\r\n0.1\r\n"),
    SCRIPT_CASE("return tostring(cmsgpack.unpack(cmsgpack.pack(1.5)))", "$3\r\n1.5\r\n"),
    SCRIPT_CASE("return cmsgpack.unpack(cmsgpack.pack({a={b={1,2,{c='d'}}}})).a.b[3].c", "$1\r\n" "d\r\n"),
    SCRIPT_CASE("cmsgpack.unpack()",
                "-ERR user_script:1: bad argument #1 to 'unpack' (string expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cmsgpack.unpack({})",
                "-ERR user_script:1: bad argument #1 to 'unpack' (string expected, got table) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack('')}", "*0\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\193\")}",
                "-ERR user_script:1: Bad data format in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\146\\1\")}",
                "-ERR user_script:1: Missing bytes in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\220\\255\\255\\1\")}",
                "-ERR user_script:1: Missing bytes in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\221\\255\\255\\255\\255\\1\")}",
                "-ERR user_script:1: Missing bytes in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\219\\255\\255\\255\\255\\1\")}",
                "-ERR user_script:1: Missing bytes in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\129\\192\\1\")}", "-ERR table index is nil script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\130\\1\\2\")}",
                "-ERR user_script:1: Missing bytes in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\196\\2ab\\197\\0\\1c\\198\\0\\0\\0\\1d\")}",
                "-ERR user_script:1: Bad data format in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\199\\1\\1a\")}",
                "-ERR user_script:1: Bad data format in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\212\\1a\")}",
                "-ERR user_script:1: Bad data format in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\202\\63\\128\\0\\0\\203\\63\\240\\0\\0\\0\\0\\0\\0\")}", "*2\r\n:1\r\n:1\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(\"\\202\\63\")}",
                "-ERR user_script:1: Missing bytes in input. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack(string.rep(\"\\145\",1000)..\"\\1\")}",
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r"
                "\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1"
                "\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}", "*2\r\n:1\r\n:1\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),1)}", "*2\r\n:2\r\n:2\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),2)}", "*2\r\n:-1\r\n:3\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),3)}", "*1\r\n:-1\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),4)}",
                "-ERR user_script:1: Start offset 4 greater than input length 3. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),-1)}",
                "-ERR user_script:1: Invalid request to unpack with offset of -1 and limit of 3. script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_one(\"\")}", "*1\r\n:-1\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}", "*3\r\n:2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2,1)}", "*3\r\n:-1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),0,1)}", "*1\r\n:1\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),0,0)}", "*3\r\n:1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),-1,1)}",
                "-ERR user_script:1: Invalid request to unpack with offset of 1 and limit of 3. script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3))}",
                "-ERR user_script:1: bad argument #2 to 'unpack_limit' (number expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),5)}", "*4\r\n:-1\r\n:1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),1,9)}",
                "-ERR user_script:1: Start offset 9 greater than input length 3. script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {cmsgpack._NAME,cmsgpack._VERSION}", "*2\r\n$8\r\ncmsgpack\r\n$18\r\nlua-cmsgpack 0.4.0\r\n"),
};

static void cmsgpack_reads_and_writes_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cmsgpack_reads_and_writes_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
