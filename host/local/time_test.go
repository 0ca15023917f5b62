package local
import ("testing";"context";"time";"os";"fmt";"github.com/rein-run/rein/host";"github.com/rein-run/rein/host/driver")
func TestTimes(t *testing.T){
 for _,k:=range [][]string{nil,{os.Getenv("REIN_BENCH_KEEPER")}} { for i:=0;i<6;i++ {
 h:=host.New(New(&Options{Keeper:k}),nil)
 t0:=time.Now()
 p,err:=h.Start(context.Background(),&driver.Spec{ID:fmt.Sprint("t",i),Argv:[]string{"true"}},new(buf))
 if err!=nil{t.Fatal(err)}
 t1:=time.Now()
 inner:=p
 _=inner
 p.Wait(context.Background())
 t.Log(k, "start",t1.Sub(t0),"end",time.Since(t1))
 h.Close()
 }}}
