import ctypes as C, json, os, sys, time, subprocess
cu=C.CDLL('libcuda.so.1'); nv=C.CDLL('libnvidia-ml.so.1')
R={}
u64=C.c_uint64; sz=C.c_size_t; vp=C.c_void_p; M=1<<20
def free():
    f=sz();t=sz(); r=cu.cuMemGetInfo_v2(C.byref(f),C.byref(t)); return f.value if r==0 else -r
class PI(C.Structure): _fields_=[('pid',C.c_uint),('used',C.c_ulonglong),('gi',C.c_uint),('ci',C.c_uint)]
nv.nvmlInit_v2(); h=vp(); nv.nvmlDeviceGetHandleByIndex_v2(0,C.byref(h))
def nvproc():
    n=C.c_uint(64); a=(PI*64)(); r=nv.nvmlDeviceGetComputeRunningProcesses_v3(h,C.byref(n),a)
    return {a[i].pid:a[i].used for i in range(n.value)} if r==0 else r
class MI(C.Structure): _fields_=[('t',C.c_ulonglong),('f',C.c_ulonglong),('u',C.c_ulonglong)]
class MI2(C.Structure): _fields_=[('v',C.c_uint),('t',C.c_ulonglong),('r',C.c_ulonglong),('f',C.c_ulonglong),('u',C.c_ulonglong)]
def nvmem():
    m=MI(); nv.nvmlDeviceGetMemoryInfo(h,C.byref(m)); m2=MI2(); m2.v=C.sizeof(MI2)|(2<<24); r=nv.nvmlDeviceGetMemoryInfo_v2(h,C.byref(m2))
    return dict(t=m.t,f=m.f,u=m.u,v2=(r,m2.t,m2.r,m2.f,m2.u))
def mine():
    p=nvproc(); return p.get(os.getpid(), str(p)) if isinstance(p,dict) else p
def rec(k,*v): R[k]=v if len(v)!=1 else v[0]; print(k,*v,flush=True)
rec('nvmem_idle',nvmem())
rec('init',cu.cuInit(0))
d=C.c_int(); cu.cuDeviceGet(C.byref(d),0)
t=sz(); cu.cuDeviceTotalMem_v2(C.byref(t),d); rec('total',t.value)
attrs={}
for i in range(1,160):
    x=C.c_int(-777); r=cu.cuDeviceGetAttribute(C.byref(x),i,d); attrs[i]=(r,x.value)
R['attrs']=attrs
b=C.create_string_buffer(100); cu.cuDeviceGetPCIBusId(b,100,d); rec('pci',b.value.decode())
a=sz();bb=sz(); rec('info_no_ctx',cu.cuMemGetInfo_v2(C.byref(a),C.byref(bb)),a.value,bb.value)
p=u64(); rec('alloc_no_ctx',cu.cuMemAlloc_v2(C.byref(p),sz(1024))); rec('free_no_ctx',cu.cuMemFree_v2(u64(0x700000000)))
ctx=vp(); t0=time.time(); rec('retain',cu.cuDevicePrimaryCtxRetain(C.byref(ctx),d), time.time()-t0)
cu.cuCtxSetCurrent(ctx)
rec('free_after_ctx',free(),t.value-free(),'nvml',mine(),nvmem())
def delta(name,fn,undo=None):
    a=free(); m0=mine(); r=fn(); b=free(); m1=mine()
    rec(name,'r',r,'took',a-b,'nvml',m1-m0 if isinstance(m1,int) and isinstance(m0,int) else (m0,m1)); return r
# contexts
c2=vp(); delta('ctx2_create',lambda:cu.cuCtxCreate_v2(C.byref(c2),0,d)); delta('ctx2_destroy',lambda:cu.cuCtxDestroy_v2(c2)); cu.cuCtxSetCurrent(ctx)
c3=vp(); delta('ctx3_create_sched',lambda:cu.cuCtxCreate_v2(C.byref(c3),4,d)); c4=vp(); delta('ctx4_create',lambda:cu.cuCtxCreate_v2(C.byref(c4),0,d)); cu.cuCtxDestroy_v2(c3);cu.cuCtxDestroy_v2(c4); cu.cuCtxSetCurrent(ctx); rec('after_destroys',free())
buf=(C.c_ubyte*144)(); out=(C.c_ubyte*144)(); rem=(C.c_ubyte*144)(); nb=C.c_uint(1); desc=vp(); g=vp(); gc=vp()
r0=cu.cuDeviceGetDevResource(d,buf,1); r1=cu.cuDevSmResourceSplitByCount(out,C.byref(nb),buf,rem,0,16); r2=cu.cuDevResourceGenerateDesc(C.byref(desc),out,1)
a0=free(); r3=cu.cuGreenCtxCreate(C.byref(g),desc,d,1); rec('green',r0,r1,r2,r3,'took',a0-free()); r4=cu.cuCtxFromGreenCtx(C.byref(gc),g); rec('green_ctx',r4,'took',a0-free()); cu.cuGreenCtxDestroy(g); rec('green_back',a0-free()); cu.cuCtxSetCurrent(ctx)
# packing
ptrs=[]
for s in [1,256,257,511*1024,M,M,M+1,1500*1024,2*M-1,2*M,2*M+1,3*M,4*M,5*M,1,64*M,100*M+5]:
    p=u64(); a=free(); r=cu.cuMemAlloc_v2(C.byref(p),sz(s)); ptrs.append(p.value); rec('alloc_%d_%d'%(s,len(ptrs)),r,hex(p.value),'took',a-free())
for p in ptrs: cu.cuMemFree_v2(u64(p))
ps=[]; a=free()
for i in range(64):
    p=u64(); cu.cuMemAlloc_v2(C.byref(p),sz(700*1024)); ps.append(p.value)
rec('64x700K',a-free(),[hex(x-ps[0]) for x in ps[:8]])
for x in ps[1:]: cu.cuMemFree_v2(u64(x))
rec('64x700K_left1',a-free()); cu.cuMemFree_v2(u64(ps[0])); rec('64x700K_left0',a-free())
ps=[]; a=free()
for i in range(100):
    p=u64(); cu.cuMemAlloc_v2(C.byref(p),sz(3*M if i%2 else 500)); ps.append(p.value)
rec('mixed',a-free(),[hex(x) for x in ps[:8]])
for x in ps: cu.cuMemFree_v2(u64(x))
for w,hh,e in [(1,1,4),(100,10,4),(513,100,8),(5000,1000,16),(1<<20,3,4)]:
    p=u64();pi=sz(); a=free(); r=cu.cuMemAllocPitch_v2(C.byref(p),C.byref(pi),sz(w),sz(hh),e); rec('pitch_%d_%d_%d'%(w,hh,e),r,pi.value,'took',a-free()); cu.cuMemFree_v2(p)
p=u64(); rec('alloc0',cu.cuMemAlloc_v2(C.byref(p),sz(0))); rec('allocnull',cu.cuMemAlloc_v2(None,sz(10))); rec('alloc_huge',cu.cuMemAlloc_v2(C.byref(p),sz(1<<60))); rec('alloc_card',cu.cuMemAlloc_v2(C.byref(p),sz(t.value+M)))
rec('free_null',cu.cuMemFree_v2(u64(0))); rec('free_unknown',cu.cuMemFree_v2(u64(0x123450000)))
p=u64(); cu.cuMemAlloc_v2(C.byref(p),sz(4*M)); rec('free_interior',cu.cuMemFree_v2(u64(p.value+256))); rec('free_ok',cu.cuMemFree_v2(p)); rec('free_twice',cu.cuMemFree_v2(p))
rec('info_null',cu.cuMemGetInfo_v2(None,None)); f=sz(); rec('info_half',cu.cuMemGetInfo_v2(C.byref(f),None),f.value)
p=u64(); delta('managed_64M',lambda:cu.cuMemAllocManaged(C.byref(p),sz(64*M),1)); delta('managed_memset',lambda:(cu.cuMemsetD8_v2(p,1,sz(64*M)),cu.cuCtxSynchronize())); delta('managed_free',lambda:cu.cuMemFree_v2(p))
# modules
def ptx(body): return ('.version 7.0\n.target sm_75\n.address_size 64\n'+body).encode()+b'\0'
mod=vp(); delta('mod_small',lambda:cu.cuModuleLoadData(C.byref(mod),ptx('.visible .entry k(){ret;}')))
m2=vp(); delta('mod_small2',lambda:cu.cuModuleLoadData(C.byref(m2),ptx('.visible .entry k2(){ret;}')))
fn=vp(); delta('getfunc',lambda:cu.cuModuleGetFunction(C.byref(fn),mod,b'k')); delta('launch_small',lambda:(cu.cuLaunchKernel(fn,1,1,1,1,1,1,0,None,None,None),cu.cuCtxSynchronize()))
for szg in [100,1*M,3*M,256*M]:
    mg=vp(); delta('mod_global_%d'%szg,lambda:cu.cuModuleLoadData(C.byref(mg),ptx('.visible .global .align 16 .b8 big[%d];\n.visible .entry kg(.param .u64 p){.reg .u64 %%rd<3>; .reg .u32 %%r<2>; mov.u64 %%rd1, big; mov.u32 %%r1, 1; st.global.u32 [%%rd1], %%r1; ret;}'%szg))); fg=vp(); delta('  gf%d'%szg,lambda:cu.cuModuleGetFunction(C.byref(fg),mg,b'kg')); gp=u64();gs=sz(); delta('  gg%d'%szg,lambda:cu.cuModuleGetGlobal_v2(C.byref(gp),C.byref(gs),mg,b'big')); rec('  gsize',gs.value,hex(gp.value)); delta('  unload%d'%szg,lambda:cu.cuModuleUnload(mg))
lib=vp(); delta('lib_global_64M',lambda:cu.cuLibraryLoadData(C.byref(lib),ptx('.visible .global .align 16 .b8 big[67108864];\n.visible .entry kg(){ret;}'),None,None,0,None,None,0))
kk=vp(); delta('lib_getkernel',lambda:cu.cuLibraryGetKernel(C.byref(kk),lib,b'kg')); gp=u64();gs=sz(); delta('lib_getglobal',lambda:cu.cuLibraryGetGlobal(C.byref(gp),C.byref(gs),lib,b'big'))
kf=vp(); delta('kernel_getfunction',lambda:cu.cuKernelGetFunction(C.byref(kf),kk)); delta('lib_launch',lambda:(cu.cuLaunchKernel(kk,1,1,1,1,1,1,0,None,None,None),cu.cuCtxSynchronize())); delta('lib_unload',lambda:cu.cuLibraryUnload(lib))
def loc(nbytes,name): return ptx('.visible .entry %s(.param .u64 p, .param .u32 i){.local .align 8 .b8 l[%d]; .reg .u64 %%rd<4>; .reg .u32 %%r<3>; ld.param.u64 %%rd1,[p]; ld.param.u32 %%r1,[i]; mov.u64 %%rd2, l; cvt.u64.u32 %%rd3,%%r1; add.u64 %%rd3,%%rd2,%%rd3; st.local.u32 [%%rd3],%%r1; ld.local.u32 %%r2,[%%rd2]; st.global.u32 [%%rd1],%%r2; ret;}'%(name,nbytes))
buf=u64(); cu.cuMemAlloc_v2(C.byref(buf),sz(4096))
for nb in [512,1024,8192,4096,16384]:
    ml=vp(); delta('local_%d_load'%nb,lambda:cu.cuModuleLoadData(C.byref(ml),loc(nb,'kl'))); fl=vp(); delta('  getfunc%d'%nb,lambda:cu.cuModuleGetFunction(C.byref(fl),ml,b'kl'))
    x=C.c_int(); cu.cuFuncGetAttribute(C.byref(x),3,fl); y=C.c_int(); cu.cuFuncGetAttribute(C.byref(y),4,fl); rec('  attr_local',x.value,'regs',y.value)
    a1=u64(buf.value); a2=C.c_uint(8); ar=(vp*2)(C.addressof(a1),C.addressof(a2))
    delta('  launch%d'%nb,lambda:(cu.cuLaunchKernel(fl,1,1,1,32,1,1,0,None,ar,None),cu.cuCtxSynchronize())); delta('  unload%d'%nb,lambda:cu.cuModuleUnload(ml))
for k,i in {'STACK':0,'PRINTF':1,'HEAP':2}.items():
    x=sz(); r=cu.cuCtxGetLimit(C.byref(x),i); rec('limit_'+k,r,x.value)
go=lambda:(cu.cuLaunchKernel(fn,1,1,1,1,1,1,0,None,None,None),cu.cuCtxSynchronize())
delta('set_heap_1G',lambda:cu.cuCtxSetLimit(2,sz(1<<30))); x=sz(); cu.cuCtxGetLimit(C.byref(x),2); rec('heap_now',x.value); delta('  launch_after_heap',go)
delta('set_printf_256M',lambda:cu.cuCtxSetLimit(1,sz(256*M))); delta(' launch_p',go); delta('set_stack_16K',lambda:cu.cuCtxSetLimit(0,sz(16384))); delta('  launch_s',go)
delta('set_stack_1K',lambda:cu.cuCtxSetLimit(0,sz(1024)));delta('set_heap_8M',lambda:cu.cuCtxSetLimit(2,sz(8*M)))
delta('reset',lambda:cu.cuDevicePrimaryCtxReset_v2(d)); rec('end',nvproc(),nvmem())
if __name__=='__main__' and 'facts2' not in sys.argv[0]: json.dump(R,open(os.environ.get('OUT','/tmp')+'/facts1.json','w'),indent=1,default=str)
